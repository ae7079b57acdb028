//! Makes an SVG picture of what a terminal shows: text with escape sequences from standard input.

use std::io::{self, Read as _};

fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    println!("{}", anstyle_svg::Term::new().render_svg(text.trim_end()));
    Ok(())
}
