//! The picture of the screen in the documents, docs/pictures/top.svg, drawn from the terminal's own
//! cells. `PIPEMILL_GOLDEN=write` writes it again.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::history::StatusHistory;
use super::screen::{Keys, draw};
use pipemill_telemetry::status::Status;

/// Size of the terminal in cells.
const SIZE: (u16, u16) = (112, 27);
/// Size of a cell in the picture.
const CELL: (f64, f64) = (8.4, 18.0);
/// Empty space around the cells.
const BORDER: f64 = 12.0;
const BACKGROUND: &str = "#161b22";
const FOREGROUND: &str = "#d6dde5";

/// Two minutes of a host, with one answer each second. The rate of `train` goes up and down.
fn history() -> StatusHistory {
    let mut status: Status = serde_json::from_str(include_str!("picture.json")).expect("a status");
    let (mut history, began) = (StatusHistory::default(), Instant::now());
    for second in 0..120_u64 {
        history.add(began + Duration::from_secs(second), status.clone());
        let totals = &mut status.channels[0].totals;
        // A triangle wave with smaller ones on it: the same on each machine, unlike a sine.
        let wave = |period: u64, height: u64| {
            second.abs_diff(second / period * period + period / 2) * height
        };
        totals.bytes += (35 << 20) + (wave(40, 1 << 20) + wave(11, 1 << 20) + wave(5, 3 << 19));
        totals.records += 700 + wave(40, 9);
        totals.source += 0.67;
        totals.decoder += 0.20;
        totals.batch += 0.03;
        totals.consumer += 0.10;
    }
    history
}

fn hex(color: Color) -> &'static str {
    match color {
        Color::Blue => "#4c9be8",
        Color::Magenta => "#c678dd",
        Color::Cyan => "#4db8c4",
        Color::Green => "#5fb878",
        Color::Yellow => "#e0b24a",
        Color::Red => "#e5645f",
        Color::DarkGray => "#5c6773",
        _ => FOREGROUND,
    }
}

/// The text color of a cell, whether it is bold, and its opacity.
fn look(cell: &Cell) -> (&'static str, bool, &'static str) {
    let opacity = if cell.modifier.contains(Modifier::DIM) { "0.65" } else { "1" };
    (hex(cell.fg), cell.modifier.contains(Modifier::BOLD), opacity)
}

/// The part of a cell that a bar character fills, from the bottom, and its opacity.
fn bar(symbol: &str) -> Option<(f64, f64)> {
    let eighths = "▁▂▃▄▅▆▇█";
    if let Some(index) = eighths.chars().position(|c| symbol == c.to_string()) {
        return Some(((index + 1) as f64 / 8.0, 1.0));
    }
    Some(match symbol {
        "▓" => (1.0, 0.75),
        "▒" => (1.0, 0.5),
        "░" => (1.0, 0.3),
        _ => return None,
    })
}

/// A line of the border of a box, as a path from the middle of the cell.
fn line(symbol: &str) -> Option<&'static str> {
    Some(match symbol {
        "─" => "m-4.2 0h8.4",
        "│" => "m0-9v18",
        "┌" => "m4.2 0h-4.2v9",
        "┐" => "m-4.2 0h4.2v9",
        "└" => "m4.2 0h-4.2v-9",
        "┘" => "m-4.2 0h4.2v-9",
        _ => return None,
    })
}

/// Bars and lines are shapes, which leave no gaps between cells; the rest is text.
fn svg(buffer: &Buffer) -> String {
    let (width, height) = (buffer.area.width, buffer.area.height);
    let size = |cells: u16, cell: f64| f64::from(cells) * cell + 2.0 * BORDER;
    let (full_width, full_height) = (size(width, CELL.0), size(height, CELL.1));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full_width:.1} \
         {full_height:.1}\" role=\"img\">\n<title>pipemill top</title>\n<rect width=\"100%\" \
         height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n<g font-family=\"ui-monospace, Menlo, \
         Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\" \
         shape-rendering=\"crispEdges\">\n"
    );
    for y in 0..height {
        let mut x = 0;
        while x < width {
            x += add(&mut out, buffer, x, y);
        }
    }
    out + "</g>\n</svg>\n"
}

/// Adds the cells from this one on that have the same style, and returns their number.
fn add(out: &mut String, buffer: &Buffer, x: u16, y: u16) -> u16 {
    let cell = &buffer[(x, y)];
    let is_text = |cell: &Cell| bar(cell.symbol()).is_none() && line(cell.symbol()).is_none();
    let is_like = |other: &Cell| {
        look(other) == look(cell)
            && if is_text(cell) { is_text(other) } else { other.symbol() == cell.symbol() }
    };
    let count = (x..buffer.area.width).take_while(|x| is_like(&buffer[(*x, y)])).count() as u16;
    let (left, top) = (f64::from(x) * CELL.0 + BORDER, f64::from(y) * CELL.1 + BORDER);
    let (color, bold, opacity) = look(cell);
    // Writing to a string does not fail.
    if let Some((part, shade)) = bar(cell.symbol()) {
        let (width, height) = (f64::from(count) * CELL.0, CELL.1 * part);
        let top = top + CELL.1 - height;
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.2}\" width=\"{width:.1}\" height=\"{height:.2}\" \
             fill=\"{color}\" opacity=\"{shade}\"/>"
        );
    } else if let Some(path) = line(cell.symbol()) {
        let middle = |index: u16| left + (f64::from(index) + 0.5) * CELL.0;
        let d = (0..count)
            .map(|index| format!("M{:.1} {:.1}{path}", middle(index), top + CELL.1 / 2.0));
        let d: String = d.collect();
        let _ = writeln!(out, "<path d=\"{d}\" fill=\"none\" stroke=\"{color}\"/>");
    } else {
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let style = format!("fill=\"{color}\" opacity=\"{opacity}\"{weight}");
        let text: Vec<_> = (x..x + count).map(|x| buffer[(x, y)].symbol()).collect();
        add_text(out, &text, (left, top + CELL.1 * 0.75), &style);
    }
    count
}

/// Adds a line of text in parts, because SVG merges consecutive spaces.
fn add_text(out: &mut String, cells: &[&str], (left, baseline): (f64, f64), style: &str) {
    let mut at = 0;
    while at < cells.len() {
        let rest = &cells[at..];
        let end = rest.windows(2).position(|two| two == [" ", " "]).unwrap_or(rest.len());
        let part = rest[..end].concat();
        if !part.trim().is_empty() {
            let blank = part.chars().take_while(|c| *c == ' ').count();
            let (x, shown) = (left + (at + blank) as f64 * CELL.0, part.trim());
            let width = shown.chars().count() as f64 * CELL.0;
            let shown = shown.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{baseline:.1}\" textLength=\"{width:.1}\" \
                 {style}>{shown}</text>"
            );
        }
        at += end.max(1);
    }
}

#[test]
fn the_picture_of_the_documents_is_what_the_screen_shows() {
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("memory");
    let keys = Keys { host: 1, hosts: 1 };
    terminal.draw(|frame| draw(frame, &history(), 0, keys)).expect("memory");
    let found = svg(terminal.backend().buffer());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/top.svg");
    if std::env::var_os("PIPEMILL_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&file, &found).expect("the picture can be written");
        return;
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(there == found, "docs/pictures/top.svg differs; PIPEMILL_GOLDEN=write writes it again");
}
