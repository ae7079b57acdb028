//! The flags of `serve`.

use std::net::IpAddr;

use clap::Args;

/// `ralph serve`, and the page of `ralph run --serve`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The page is for this machine only. The link that is printed lets one browser in; \
    after it was used, a new link is printed. The page reads what is on disk, so that it also shows \
    runs that have ended and goes on while runs come and go. `/metrics` has the numbers for \
    Prometheus."
)]
pub struct ServeArgs {
    /// The port; 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
    /// Listen on this address of the machine instead of the loopback address. There is no
    /// encryption: a proxy or an SSH tunnel is better
    #[arg(long, value_name = "ADDRESS", requires = "hosts")]
    pub allow_remote: Option<IpAddr>,
    /// A name by which browsers reach the page, for example through a proxy, as `HOST` or `HOST:PORT`;
    /// may be repeated. The page then only shows
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Let the page act, although other machines can reach it
    #[arg(long, requires = "hosts")]
    pub allow_actions: bool,
}

/// The port of the page where none is given: fixed, so that a bookmark stays right.
pub const DEFAULT_PORT: u16 = 7325;
/// The same as text.
pub(super) const DEFAULT_PORT_TEXT: &str = "7325";

impl ServeArgs {
    /// A page on this port of this machine.
    pub fn on(port: u16) -> ServeArgs {
        let hosts = Vec::new();
        ServeArgs { port, open: false, allow_remote: None, hosts, allow_actions: false }
    }
}
