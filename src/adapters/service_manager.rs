//! The service manager that started and watches this process: systemd, with its notify protocol. The
//! only user of `sd-notify`.

pub use sd_notify::NotifyState;

/// The variables that the manager sets for the process it started. Child processes must not inherit
/// them.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Notifies the manager, if there is one. Without a message, it acts as configured.
pub fn tell(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}
