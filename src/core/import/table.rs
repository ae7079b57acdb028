//! Reads CSV and TSV with a header.

use std::ops::Range;

use super::{
    builder::{self, Reading, TaskBuilder},
    fields::{self, FieldRole, fold},
    value::{SourceEntry, SourceValue},
};
use crate::diagnostic::Diagnostic;

/// A row of a table: its fields with their bytes.
pub(super) struct TableRow {
    pub(super) cells: Vec<(String, Range<usize>)>,
}

/// The separator of a table, by its first line.
pub(super) fn separator(text: &str) -> char {
    let first = text.lines().next().unwrap_or_default();
    let count = |separator: char| first.matches(separator).count();
    if count('\t') > 0 {
        '\t'
    } else if count(';') > count(',') {
        ';'
    } else {
        ','
    }
}

/// Reads the header and the rows of a table. Empty lines are no rows.
///
/// # Errors
/// A quote that is never closed.
pub(super) fn rows(text: &str) -> Result<Vec<TableRow>, Vec<Diagnostic>> {
    let mut start = text.len() - text.trim_start_matches('\u{feff}').len();
    let delimiter = separator(&text[start..]);
    let (mut rows, mut cells) = (Vec::new(), Vec::new());
    while start < text.len() {
        let (cell, end) = cell(text, start, delimiter)?;
        cells.push((cell, start..end));
        let rest = &text[end..];
        start = end + rest.chars().next().map_or(0, char::len_utf8);
        if rest == delimiter.to_string() {
            cells.push((String::new(), start..start));
        }
        if !rest.starts_with(delimiter) || start == text.len() {
            let cells = std::mem::take(&mut cells);
            let is_empty = cells.len() == 1 && cells[0].1.is_empty();
            rows.extend((!is_empty).then_some(TableRow { cells }));
        }
    }
    Ok(rows)
}

/// The cell that starts here, and its end.
fn cell(text: &str, start: usize, delimiter: char) -> Result<(String, usize), Vec<Diagnostic>> {
    let (mut cell, mut end) = (String::new(), start);
    if text[start..].starts_with('"') {
        while text[end..].starts_with('"') {
            cell.push_str(if end > start { "\"" } else { "" });
            let Some(length) = text[end + 1..].find('"') else {
                let fault = Diagnostic::error("this quote is never closed", start..start + 1);
                return Err(vec![
                    fault.help("close it, or write `\"\"` for a quote within quotes"),
                ]);
            };
            cell.push_str(&text[end + 1..end + 1 + length]);
            end += length + 2;
        }
    }
    let length = text[end..].find([delimiter, '\n', '\r']).unwrap_or(text.len() - end);
    cell.push_str(&text[end..end + length]);
    Ok((cell, end + length))
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
    let roles = roles(header, rows);
    remark(&mut reading, header, rows, &roles);
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
                    builder.lose("cell", "its column has no name", at.clone());
                }
                continue;
            }
            let entry = SourceEntry {
                name: name.to_owned(),
                key_at: at.clone(),
                value: SourceValue::of_text(cell.clone(), at.clone()),
            };
            builder.take(&mut reading, &entry, roles[number]);
        }
        builder.finish(&mut reading);
    }
    Ok(reading)
}

/// The roles of the columns. If none is known to have the titles, the first one of texts has them.
fn roles(header: &TableRow, rows: &[TableRow]) -> Vec<FieldRole> {
    let names = || header.cells.iter().map(|(name, _)| name.trim());
    let has_title = names().any(|name| fields::role(name) == FieldRole::Title);
    let mut roles: Vec<FieldRole> = names().map(|name| role(name, has_title)).collect();
    let has_texts = |column: &usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(*column));
        let count = |test: fn(&str) -> bool| cells.clone().filter(|(cell, _)| test(cell)).count();
        let texts = count(|cell| cell.chars().filter(|c| c.is_alphabetic()).count() > 2);
        texts > 0 && texts * 2 > count(|cell| !cell.trim().is_empty())
    };
    let is_free = |column: &usize| roles[*column] == FieldRole::Other && has_texts(column);
    if !roles.contains(&FieldRole::Title)
        && let Some(column) = (0..roles.len()).find(is_free)
    {
        roles[column] = FieldRole::Title;
    }
    roles
}

/// Remarks on the columns: which one has the titles if none is named so, and which ones mean nothing.
fn remark(reading: &mut Reading, header: &TableRow, rows: &[TableRow], roles: &[FieldRole]) {
    let is_used = |column: usize| {
        rows.iter()
            .any(|row| row.cells.get(column).is_some_and(|(cell, _)| !cell.trim().is_empty()))
    };
    let (mut unknown, mut first) = (Vec::new(), None);
    for (column, ((name, at), role)) in header.cells.iter().zip(roles).enumerate() {
        let name = name.trim();
        if *role == FieldRole::Title && self::role(name, false) != FieldRole::Title {
            reading.note(name, "taken as the title: no column is called `title`", at.clone());
        }
        // What gets another name is named with it.
        let is_kept = *role == FieldRole::Other && builder::free_name(name) == name;
        if is_kept && !fields::is_telling(name) && !name.is_empty() && is_used(column) {
            unknown.push(name);
            first.get_or_insert(at);
        }
    }
    if let Some(at) = first {
        reading.note(&unknown.join(", "), "kept, and nothing is read from it", at.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_that_is_never_closed_is_an_error_at_its_place() {
        let fault = rows("id,title\n1,\"a\n2,b\n").err().unwrap().remove(0);
        assert_eq!(fault.at, 11..12);
        let found = rows("id,title\n1,5\" disk\n2,\"a \"\"b\"\"\"\n").unwrap();
        assert_eq!(found[1].cells[1].0, "5\" disk");
        assert_eq!(found[2].cells[1].0, "a \"b\"");
        assert_eq!(rows("a,b\n1,").unwrap()[1].cells.len(), 2);
        assert_eq!(rows("a,b\n\n1,\n").unwrap()[1].cells.len(), 2);
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
