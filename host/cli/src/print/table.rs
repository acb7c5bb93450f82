//! Records as a table for people: aligned columns that fit the terminal, and the number of records
//! at the end.

use std::io::{self, Write};

use pipemill_types::{Field, Printable, Scalar, category};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::records::Records;
use pipemill_types::record_json as json;

/// Number of rows that determine the widths of the columns. They are kept until the widths are
/// known.
const ROWS_TO_LEARN: usize = 1000;
/// Spaces between two columns.
const GAP: usize = 2;
/// Smallest width of a column in characters: instead of narrower columns, the last columns are left
/// out.
const MIN_CUT_WIDTH: usize = 8;

/// A table that is being printed.
pub(super) struct Table {
    /// Number of characters that fit into a line.
    width: usize,
    fields: Vec<Field>,
    /// The rows that determine the widths.
    rows: Vec<Vec<String>>,
    /// The widths of the shown columns, once they are known.
    widths: Option<Vec<usize>>,
}

impl Table {
    /// A table for lines of `width` characters.
    pub(super) fn new(width: usize) -> Self {
        Self { width, fields: Vec::new(), rows: Vec::new(), widths: None }
    }

    /// Sets the columns.
    pub(super) fn set_fields(&mut self, fields: &[Field]) {
        self.fields = fields.to_vec();
    }

    /// Adds records.
    pub(super) fn print(&mut self, out: &mut impl Write, records: &Records<'_>) -> io::Result<()> {
        for record in records.range.clone() {
            let cell = |(index, field)| cell(field, records.value(index, record), self.width);
            let row = self.fields.iter().enumerate().map(cell).collect();
            match &self.widths {
                Some(widths) => print_row(out, &self.fields, widths, &row)?,
                None => self.rows.push(row),
            }
            if self.widths.is_none() && self.rows.len() == ROWS_TO_LEARN {
                self.print_learned(out)?;
            }
        }
        Ok(())
    }

    /// Prints the remaining rows, and a last line with the number of records, or that there may be
    /// more.
    pub(super) fn finish(
        &mut self,
        out: &mut impl Write,
        records: u64,
        limited: bool,
    ) -> io::Result<()> {
        if self.widths.is_none() && !self.fields.is_empty() {
            self.print_learned(out)?;
        }
        let shown = self.widths.as_ref().map_or(0, Vec::len);
        let noun = if records == 1 { "record" } else { "records" };
        match limited {
            false => write!(out, "{records} {noun}")?,
            true => write!(
                out,
                "the first {noun}: {records}; `--limit N` shows more, `--output count` counts all"
            )?,
        }
        if shown < self.fields.len() {
            let count = self.fields.len();
            write!(out, "; {shown} of {count} fields fit, `--fields NAME,…` chooses")?;
        }
        writeln!(out)
    }

    /// Chooses the widths, and prints the header and the rows so far.
    fn print_learned(&mut self, out: &mut impl Write) -> io::Result<()> {
        let names: Vec<_> =
            self.fields.iter().map(|field| cut(printable(&field.name), self.width)).collect();
        let types: Vec<_> = self.fields.iter().map(type_name).collect();
        let natural = |index: usize| {
            let rows = self.rows.iter().map(|row| row[index].width());
            rows.fold(names[index].width().max(types[index].width()), usize::max)
        };
        let natural: Vec<_> = (0..self.fields.len()).map(natural).collect();
        let widths = fit(&natural, self.width);
        print_row(out, &self.fields, &widths, &names)?;
        print_row(out, &self.fields, &widths, &types)?;
        let rule: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
        print_row(out, &self.fields, &widths, &rule)?;
        for row in self.rows.drain(..) {
            print_row(out, &self.fields, &widths, &row)?;
        }
        self.widths = Some(widths);
        Ok(())
    }
}

/// The widths of the columns that are shown in `width` characters: the widest are cut first, then
/// the last columns are left out.
fn fit(natural: &[usize], width: usize) -> Vec<usize> {
    let needed = |count: usize, cap: usize| {
        let widths: usize = natural[..count].iter().map(|width| (*width).min(cap)).sum();
        widths + GAP * count.saturating_sub(1)
    };
    let all = natural.len();
    // At least one column is shown.
    let shown = (1..=all).rev().find(|count| needed(*count, MIN_CUT_WIDTH) <= width).unwrap_or(1);
    let shown = shown.min(all);
    let cap = (MIN_CUT_WIDTH..=width).rev().find(|cap| needed(shown, *cap) <= width);
    let cap = cap.unwrap_or(MIN_CUT_WIDTH);
    natural[..shown].iter().map(|width| (*width).min(cap)).collect()
}

/// Prints as many of a row's first cells as there are widths.
fn print_row(
    out: &mut impl Write,
    fields: &[Field],
    widths: &[usize],
    cells: &Vec<String>,
) -> io::Result<()> {
    let mut line = String::new();
    for (index, (width, cell)) in widths.iter().zip(cells).enumerate() {
        if index > 0 {
            line.push_str("  ");
        }
        let cell = cut(cell.clone(), *width);
        let padding = " ".repeat(width.saturating_sub(cell.width()));
        match is_number(&fields[index]) {
            true => line.extend([padding.as_str(), cell.as_str()]),
            false => line.extend([cell.as_str(), padding.as_str()]),
        }
    }
    writeln!(out, "{}", line.trim_end())
}

fn is_number(field: &Field) -> bool {
    let is_number = !field.scalar.is_string() && field.scalar != Scalar::Boolean;
    is_number && field.shape.is_empty() && field.categories.is_empty()
}

/// The type with its shape, as the configuration and the documents write it: `float32[28, 28]`.
pub(crate) fn type_name(field: &Field) -> String {
    let scalar = match field.logical.as_str() {
        "" => field.scalar.word(),
        logical => logical,
    };
    if !field.categories.is_empty() {
        return format!("category[{}]", field.categories.len());
    }
    if field.shape.is_empty() || field.logical == "uuid" {
        return printable(scalar);
    }
    let size = |size: &u32| if *size == 0 { "…".to_owned() } else { size.to_string() };
    let sizes: Vec<_> = field.shape.iter().map(size).collect();
    printable(&format!("{scalar}[{}]", sizes.join(", ")))
}

/// A value as text of at most `width` characters.
pub(crate) fn cell(field: &Field, value: Option<&[u8]>, width: usize) -> String {
    let Some(value) = value else { return "null".to_owned() };
    if let Some(text) = category(field, value) {
        return cut(printable(text), width);
    }
    if field.is_text() {
        // A character has at most 4 bytes, and one with combining characters a few more.
        let start = &value[..value.len().min(16 * width)];
        return match std::str::from_utf8(value) {
            Ok(_) if field.scalar == Scalar::Utf8 => {
                cut(printable(&String::from_utf8_lossy(start)), width)
            }
            _ => cut(value[..value.len().min(width + 1)].escape_ascii().to_string(), width),
        };
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = json::print(&mut text, field, value);
    let text = String::from_utf8_lossy(&text);
    let is_word = field.shape.is_empty() && text.starts_with('"');
    cut(if is_word { text.trim_matches('"').to_owned() } else { text.into_owned() }, width)
}

fn printable(text: &str) -> String {
    Printable::line(text).to_string()
}

/// Cuts the text to `width` columns of a terminal; a cut text ends with `…`.
fn cut(text: String, width: usize) -> String {
    if text.width() <= width {
        return text;
    }
    let mut end = 0;
    let mut taken = 0;
    for (at, character) in text.grapheme_indices(true) {
        taken += character.width();
        if taken + 1 > width {
            break;
        }
        end = at + character.len();
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cut_text_fits(text in "\\PC*", width in 1usize..40) {
            let short = cut(text.clone(), width);
            prop_assert!(short.width() <= width, "{short:?} has {}", short.width());
            prop_assert!(short == text || short.ends_with('…'));
        }

        #[test]
        fn columns_fit_or_are_left_out(
            natural in prop::collection::vec(1usize..200, 1..40),
            width in 20usize..200,
        ) {
            let widths = fit(&natural, width);
            let taken = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
            prop_assert!(taken <= width && !widths.is_empty());
            let all = natural.iter().sum::<usize>() + GAP * (natural.len() - 1);
            if all <= width {
                prop_assert_eq!(widths, natural);
            }
        }
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("日本語日本語".to_owned(), 7), "日本語…");
        assert_eq!(cut("日本語日本語".to_owned(), 6), "日本…");
        assert_eq!(cut("ab".to_owned(), 2), "ab");
    }
}
