//! Words and numbers, written the same way in every text.

use std::time::Duration;

use chrono::{DateTime, Local, Utc};

use crate::core::{duration, graph::task::TaskId};

/// How many names of a list are given.
const NAMES: usize = 4;

/// `1 attempt`, `2 attempts`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A time of day here.
pub fn clock(at: DateTime<Utc>) -> String {
    at.with_timezone(&Local).format("%H:%M:%S").to_string()
}

/// A time to come: of day, with the date where it is another day.
pub fn moment(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    on_day(at, now, "%H:%M:%S")
}

/// The same without seconds.
pub fn minute(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    on_day(at, now, "%H:%M")
}

/// A time in this format, or with the date where it is another day.
fn on_day(at: DateTime<Utc>, now: DateTime<Utc>, format: &str) -> String {
    let [at, now] = [at, now].map(|time| time.with_timezone(&Local));
    let is_today = at.date_naive() == now.date_naive();
    at.format(if is_today { format } else { "%a %b %-d, %H:%M" }).to_string()
}

/// Day and time here.
pub fn full(at: DateTime<Utc>) -> String {
    at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// A length of whole seconds, for people.
pub fn short(seconds: u64) -> String {
    duration::short(Duration::from_secs(seconds))
}

/// A limit in seconds, for people.
pub fn limit(seconds: Option<f64>) -> String {
    seconds.filter(|seconds| *seconds > 0.0).map_or("none".to_owned(), length)
}

/// Seconds of the journal, for people.
pub(super) fn length(seconds: f64) -> String {
    duration::short(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// The first few of these tasks.
pub(crate) fn ids(tasks: &[TaskId]) -> String {
    named(&tasks.iter().map(TaskId::as_str).collect::<Vec<_>>())
}

/// The first few paths, and the number of the others.
pub fn first_paths(paths: &[String], more: usize) -> String {
    let named: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}

/// The first names, and the number of the others.
pub(crate) fn few(names: impl IntoIterator<Item = String>, most: usize) -> String {
    let mut names: Vec<String> = names.into_iter().collect();
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    names.extend((more > 0).then(|| format!("{more} more")));
    names.join(", ")
}

/// The first few names.
pub(super) fn named<T: AsRef<str>>(names: &[T]) -> String {
    let more = if names.len() > NAMES { ", …" } else { "" };
    let names: Vec<&str> = names.iter().take(NAMES).map(AsRef::as_ref).collect();
    format!("{}{more}", names.join(", "))
}
