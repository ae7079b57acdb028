//! Reads CSV and TSV with a header. The only user of csv.

use std::ops::Range;

use csv::{ReaderBuilder, StringRecord};

use super::{
    builder::TaskBuilder,
    fields::{self, FieldRole, Reading},
    value::{SourceEntry, SourceValue},
    words::fold,
};
use crate::diagnostic::Diagnostic;

/// A row of a table: its fields with their bytes.
pub(super) struct TableRow {
    pub(super) cells: Vec<(String, Range<usize>)>,
}

/// The separator of a table, by its first line.
pub(super) fn separator(text: &str) -> u8 {
    let first = text.lines().next().unwrap_or_default();
    let count = |separator: char| first.matches(separator).count();
    if count('\t') > 0 {
        b'\t'
    } else if count(';') > count(',') {
        b';'
    } else {
        b','
    }
}

/// Reads the header and the rows of a table.
///
/// # Errors
/// Rows that cannot be read.
pub(super) fn rows(text: &str) -> Result<Vec<TableRow>, Vec<Diagnostic>> {
    let bare = text.trim_start_matches('\u{feff}');
    let skipped = text.len() - bare.len();
    let delimiter = separator(bare);
    if let Some(start) = unclosed_quote(bare, delimiter) {
        let at = skipped + start..skipped + start + 1;
        let fault = Diagnostic::error("this quote is never closed", at);
        return Err(vec![fault.help("close it, or write `\"\"` for a quote within quotes")]);
    }
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(bare.as_bytes());
    let (mut rows, mut record) = (Vec::new(), StringRecord::new());
    loop {
        let start = skipped + reader.position().byte() as usize;
        match reader.read_record(&mut record) {
            Ok(false) => return Ok(rows),
            Ok(true) => {}
            Err(error) => {
                let fault =
                    Diagnostic::error(format!("this is not a table: {error}"), start..start);
                return Err(vec![fault]);
            }
        }
        let end = skipped + reader.position().byte() as usize;
        let ranges = cells(text, start..end, delimiter);
        let at = |number: usize| ranges.get(number).cloned().unwrap_or(start..start);
        let cells = record.iter().enumerate().map(|(number, cell)| (cell.to_owned(), at(number)));
        rows.push(TableRow { cells: cells.collect() });
    }
}

/// The offset of a quote at the start of a cell that is never closed.
fn unclosed_quote(text: &str, delimiter: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut open, mut is_start, mut at) = (None, true, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' if open.is_some() && bytes.get(at + 1) == Some(&b'"') => at += 1,
            b'"' if open.is_some() => open = None,
            b'"' if is_start => open = Some(at),
            _ => {}
        }
        is_start = open.is_none() && (bytes[at] == delimiter || matches!(bytes[at], b'\n' | b'\r'));
        at += 1;
    }
    open
}

/// The bytes of the cells of a row, with their quotes.
fn cells(text: &str, row: Range<usize>, delimiter: u8) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut start = row.start;
    // The reader counts the line breaks above a row as part of it.
    while start < row.end && matches!(bytes[start], b'\n' | b'\r') {
        start += 1;
    }
    let mut cells = Vec::new();
    let (mut at, mut is_quoted) = (start, false);
    while at < row.end {
        match bytes[at] {
            b'"' => is_quoted = !is_quoted,
            byte if !is_quoted && byte == delimiter => {
                cells.push(start..at);
                start = at + 1;
            }
            b'\n' | b'\r' if !is_quoted => break,
            _ => {}
        }
        at += 1;
    }
    cells.push(start..at);
    cells
}

/// Writes rows as CSV.
pub(super) fn written(rows: &[Vec<String>]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("memory can be written, and all rows are of one length");
    }
    let bytes = writer.into_inner().expect("memory can be written");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The role of a column. `Task` names the tasks if no other column does.
pub(super) fn role(name: &str, has_title: bool) -> FieldRole {
    let is_task = ["task", "taskname", "item", "todo"].contains(&fold(name).as_str());
    if is_task && !has_title { FieldRole::Title } else { fields::role(name) }
}

pub(super) fn read(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let rows = rows(text)?;
    let mut reading = Reading::default();
    let Some((header, rows)) = rows.split_first() else {
        return Ok(reading);
    };
    reading.is_empty = rows.is_empty();
    let has_title = header.cells.iter().any(|(name, _)| fields::role(name) == FieldRole::Title);
    for row in rows {
        let first = row.cells.first().map_or(0..0, |(_, at)| at.clone());
        if row.cells.iter().all(|(cell, _)| cell.trim().is_empty()) {
            continue;
        }
        let mut builder = TaskBuilder::new(first);
        for (number, (cell, at)) in row.cells.iter().enumerate() {
            let name = header.cells.get(number).map_or("", |(name, _)| name.trim());
            if name.is_empty() {
                if !cell.trim().is_empty() {
                    builder.lose("cell", "its column has no name", false, at.clone());
                }
                continue;
            }
            let entry = SourceEntry {
                name: name.to_owned(),
                key_at: at.clone(),
                value: SourceValue::of_text(cell.clone(), at.clone()),
            };
            builder.take(&mut reading, &entry, role(name, has_title));
        }
        builder.finish(&mut reading);
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_that_is_never_closed_is_an_error_at_its_place() {
        let fault = rows("id,title\n1,\"a\n2,b\n").err().unwrap().remove(0);
        assert_eq!(fault.at, 11..12);
        assert!(rows("id,title\n1,5\" disk\n2,\"a \"\"b\"\"\"\n").is_ok());
    }

    #[test]
    fn cells_know_their_bytes() {
        let text = "\u{feff}id,title,status\r\n1,\"a, \"\"b\"\"\nc\",open\r\n\r\n2,d,done";
        let rows = rows(text).unwrap();
        assert_eq!(rows.len(), 3);
        let (cell, at) = &rows[1].cells[1];
        assert_eq!((cell.as_str(), &text[at.clone()]), ("a, \"b\"\nc", "\"a, \"\"b\"\"\nc\""));
        assert_eq!(&text[rows[1].cells[2].1.clone()], "open");
        assert_eq!(&text[rows[2].cells[0].1.clone()], "2");
        assert_eq!(&text[rows[2].cells[2].1.clone()], "done");
    }
}
