//! What the page of `ralph serve` costs: answers beside a static file server, events, and an idle
//! page.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Bench, FEW, ROUNDS, compared, inputs::Place, measure::in_turn, ms, ralph, row, there_is,
};

/// How long an idle page is watched.
const IDLE: Duration = Duration::from_secs(10);

/// A page that is served, and the cookie of a browser.
struct Served {
    child: Child,
    address: SocketAddr,
    cookie: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn of(place: &Place) -> Served {
        let mut command = ralph(&place.dir, &["serve", "--port", "0"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("serve the page");
        let mut link = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut link).expect("a link");
        let (address, path) = link.trim()["http://".len()..].split_once('/').expect("a path");
        let address = address.parse().expect("an address");
        let mut served = Served { child, address, cookie: String::new() };
        let answer = served.ask(&format!("/{path}"));
        let cookie = answer.split("ralph_").nth(1).and_then(|rest| rest.split(';').next());
        served.cookie = format!("ralph_{}", cookie.expect("a cookie"));
        served
    }

    fn open(&self, path: &str, more: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("connect");
        let (address, cookie) = (self.address, &self.cookie);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n{more}\r\n")
            .expect("send");
        stream
    }

    fn ask(&self, path: &str) -> String {
        let mut text = Vec::new();
        self.open(path, "Connection: close\r\n").read_to_end(&mut text).expect("an answer");
        String::from_utf8_lossy(&text).into_owned()
    }

    fn timed(&self, path: &str) -> Duration {
        let began = Instant::now();
        assert!(self.ask(path).starts_with("HTTP/1.1 200"), "{path}");
        began.elapsed()
    }

    /// Processor time of the server so far.
    fn cpu(&self) -> Duration {
        let text =
            fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("its times");
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<u64>().expect("ticks");
        Duration::from_millis(10 * (ticks(11) + ticks(12)))
    }

    /// Resident memory of the server, in kB.
    fn memory(&self) -> i64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("status");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.split_whitespace().next().and_then(|kb| kb.parse().ok()).expect("a number")
    }
}

/// A static file server of the same text.
fn static_server(dir: &Path) -> Option<(Child, SocketAddr)> {
    if !there_is("python3") {
        return None;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
    let child =
        command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    for _ in 0..100 {
        if TcpStream::connect(address).is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    Some((child, address))
}

fn of_file(address: SocketAddr) -> Duration {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).expect("connect");
    write!(stream, "GET /answer.json HTTP/1.0\r\n\r\n").expect("send");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("an answer");
    began.elapsed()
}

/// The rows of the page.
pub fn page(bench: &Bench) {
    answers(bench);
    events(bench);
    beside_a_run(bench);
}

/// Whether a run is slower while a page shows it.
fn beside_a_run(bench: &Bench) {
    const ATTEMPTS: usize = 40;
    let graph = crate::inputs::graph(crate::inputs::Shape::Layered, 200, 0);
    let place = Place::new(bench.root.join("shown"), &graph);
    let run = || bench.timed_run(&place, ATTEMPTS, &["sleep", "0.02"]);
    let shown = || {
        let served = Served::of(&place);
        let _stream = served.open("/api/events", "");
        run()
    };
    let times = in_turn(FEW, &mut [&mut || shown(), &mut || run()]);
    compared("21", "40 attempts while a page is open", &times, "without a page", "<= 1.05x");
}

fn answers(bench: &Bench) {
    for (count, target) in [(1_000, "<= 250 ms"), (10_000, "<= 1000 ms")] {
        let place = Place::layered(&bench.root.join("page"), count);
        let served = Served::of(&place);
        for (path, what) in [("/api/now", "how it stands"), ("/api/graph", "the graph")] {
            let what = format!("{what} for the page, {count} tasks");
            fs::write(bench.root.join("answer.json"), served.ask(path)).expect("keep the answer");
            if let Some((mut server, address)) = static_server(&bench.root) {
                let times =
                    in_turn(FEW, &mut [&mut || served.timed(path), &mut || of_file(address)]);
                compared("21", &what, &times, "the same as a file", target);
                let _ = server.kill();
                let _ = server.wait();
            }
        }
    }
}

fn events(bench: &Bench) {
    let place = Place::layered(&bench.root.join("events"), 1_000);
    let served = Served::of(&place);
    let stream = served.open("/api/events", "");
    let mut lines = BufReader::new(stream);
    let mut until = |wanted: &str| {
        let mut line = String::new();
        while !line.contains(wanted) {
            line.clear();
            assert!(lines.read_line(&mut line).expect("an event") > 0, "the stream ended");
        }
    };
    until("snapshot");
    let mut late = Vec::new();
    for _ in 0..ROUNDS {
        for (command, action) in [("pause", "pause_requested"), ("resume", "resume_requested")] {
            let status = ralph(&place.dir, &[command]).stdout(Stdio::null()).status();
            assert!(status.expect("start ralph").success());
            let began = Instant::now();
            until(action);
            late.push(began.elapsed());
        }
    }
    late.sort_unstable();
    let (middle, last) = (late[late.len() / 2], late[late.len() - 1]);
    row("21", "a journal line reaches the page after", &ms(middle), "", "", "<= 250 ms");
    row("21", "… the slowest of 18", &ms(last), "", "", "<= 250 ms");
    let before = served.cpu();
    thread::sleep(IDLE);
    let cpu = served.cpu().saturating_sub(before).as_secs_f64() * 1e3 / IDLE.as_secs_f64();
    row(
        "21",
        "processor time a second of an open page",
        &format!("{cpu:.2} ms"),
        "",
        "",
        "<= 1 ms",
    );
    let memory = served.memory();
    let journal = place.dir.join("logs/ralph.jsonl");
    let one = fs::read_to_string(&journal).expect("the journal");
    let last = one.lines().last().expect("a line").to_owned();
    let mut file = fs::OpenOptions::new().append(true).open(&journal).expect("the journal");
    for _ in 0..100 {
        let block = format!("{last}\n").repeat(100);
        file.write_all(block.as_bytes()).expect("append");
        for _ in 0..100 {
            until("resume_requested");
        }
    }
    let (now, grown) = (served.memory(), served.memory() - memory);
    let megabytes = |kb: i64| format!("{:.1} MB", kb as f64 / 1024.0);
    let (now, grown) = (megabytes(now), format!("+{}", megabytes(grown)));
    row("21", "memory after 10,000 events", &now, "", &grown, "flat");
}
