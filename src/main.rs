//! The `ralph` program.
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let t = std::time::Instant::now();
    let doc = match ralph::edit::Document::parse(&text) {
        Ok(d) => d,
        Err(f) => {
            println!(
                "{}",
                ralph::excerpt::render(&path, &text, &[ralph::load::diagnostic(f)], false)
            );
            return;
        }
    };
    eprintln!("tree {:?}", t.elapsed());
    match ralph::load::load(&doc) {
        Ok(l) => {
            println!(
                "{} tasks {} edges {} chain",
                l.graph.tasks().len(),
                l.graph.edge_count(),
                l.graph.longest_chain()
            );
            println!("{}", ralph::excerpt::render(&path, &text, &l.warnings, false));
        }
        Err(d) => println!("{}", ralph::excerpt::render(&path, &text, &d, false)),
    }
    eprintln!("all {:?}", t.elapsed());
}
