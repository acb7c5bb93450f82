//! A host's status as a screen: a line for each channel, and below all that is known of the chosen one.

use indicatif::BinaryBytes;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState, Wrap};

use super::history::{History, Rates};
use super::table;
use crate::telemetry::status::{ChannelStatus, ConsumerStatus, RingStatus};

const SOURCE: Color = Color::Blue;
const DECODER: Color = Color::Magenta;
const CONSUMER: Color = Color::Green;
const STAGES: [(&str, Color); 3] =
    [("source", SOURCE), ("decoder", DECODER), ("consumer", CONSUMER)];

pub(super) fn draw(frame: &mut Frame<'_>, history: &History, chosen: usize) {
    let Some(status) = history.last() else { return };
    let chosen = chosen.min(status.channels.len().saturating_sub(1));
    let rows = status.channels.len() as u16 + 3;
    let [top, list, detail, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Max(rows),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(table::heading(status)).bold(), top);
    channels(frame, list, history, chosen);
    if let Some(channel) = status.channels.get(chosen) {
        details(frame, detail, history, channel);
    }
    let keys = Line::from("↑ ↓ another channel   q end").style(Modifier::DIM);
    frame.render_widget(keys, bottom);
}

fn channels(frame: &mut Frame<'_>, area: Rect, history: &History, chosen: usize) {
    let Some(status) = history.last() else { return };
    let head =
        ["channel", "state", "epoch", "records/s", "rate", "slots", "consumers", "waits for"];
    let rows = status.channels.iter().map(|channel| {
        let rates = history.rates(&channel.name);
        let waits = rates.verdict.map_or_else(String::new, |verdict| {
            format!("{} {}%", verdict.stage.word(), verdict.percent)
        });
        let state = match channel.state.as_str() {
            "failed" => channel.state.clone().red(),
            "running" => channel.state.clone().into(),
            _ => channel.state.clone().dim(),
        };
        Row::new([
            Cell::from(channel.name.clone().bold()),
            Cell::from(state),
            Cell::from(channel.epoch.to_string()),
            Cell::from(format!("{:.0}", rates.records)),
            Cell::from(format!("{}/s", BinaryBytes(rates.bytes as u64))),
            Cell::from(slots(&channel.ring, 16)),
            Cell::from(channel.ring.consumers.len().to_string()),
            Cell::from(waits),
        ])
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(10),
        Constraint::Length(14),
        Constraint::Length(16),
        Constraint::Length(9),
        Constraint::Length(14),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(Modifier::DIM))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(" channels "));
    let mut state = TableState::new().with_selected(chosen);
    frame.render_stateful_widget(table, area, &mut state);
}

/// Slots as a bar: granted, ready, being filled, free.
fn slots(ring: &RingStatus, width: u32) -> Line<'static> {
    let all = (ring.granted + ring.ready + ring.filling + ring.free).max(1);
    let states = [
        (ring.granted, '█', CONSUMER),
        (ring.ready, '▓', Color::Yellow),
        (ring.filling, '▒', SOURCE),
        (ring.free, '░', Color::DarkGray),
    ];
    let mut before = 0;
    let parts = states.map(|(slots, shade, color)| {
        // Rounded by their sums, so that the whole is as wide as it should be.
        let cells = (before + slots) * width / all - before * width / all;
        before += slots;
        Span::from(shade.to_string().repeat(cells as usize)).fg(color)
    });
    Line::from_iter(parts)
}

fn details(frame: &mut Frame<'_>, area: Rect, history: &History, channel: &ChannelStatus) {
    let block = Block::bordered().title(format!(" {} ", channel.name));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rates = history.rates(&channel.name);
    let lines = facts(channel, &rates);
    // Wrapped at words, a line is not filled to its end.
    let filled = (usize::from(inner.width) * 9 / 10).max(1);
    let height = lines.iter().map(|line| line.width().div_ceil(filled)).sum::<usize>() as u16;
    let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false });
    let consumers = channel.ring.consumers.len() as u16;
    let [facts, spark, list] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Min(3),
        Constraint::Max(if consumers == 0 { 1 } else { consumers + 1 }),
    ])
    .areas(inner);
    frame.render_widget(paragraph, facts);
    let line = history.line(&channel.name);
    let shown = &line[line.len().saturating_sub(spark.width.into())..];
    let peak = BinaryBytes(shown.iter().copied().max().unwrap_or(0));
    let title = Line::from(format!("bytes a second, at most {peak}/s")).style(Modifier::DIM);
    let sparkline = Sparkline::default().data(shown).style(SOURCE);
    frame.render_widget(sparkline.block(Block::new().title(title)), spark);
    consumer_list(frame, list, &channel.ring.consumers);
}

/// What is known of a channel, line by line.
fn facts(channel: &ChannelStatus, rates: &Rates) -> Vec<Line<'static>> {
    let totals = &channel.totals;
    let mut lines = vec![
        Line::from(format!(
            "{} records in {} batches from {} of {} objects, through {} ({} of memory)",
            totals.records,
            totals.batches,
            BinaryBytes(totals.bytes),
            totals.objects,
            channel.decoder,
            BinaryBytes(channel.decoder_memory),
        )),
        Line::from(format!(
            "{}: {}",
            channel.source,
            channel.object.as_deref().unwrap_or("no object yet")
        )),
        shares(rates),
    ];
    if let Some(error) = &channel.error {
        lines.push(Line::from(error.message.clone()).fg(Color::Red));
    }
    if totals.bad_places > 0 {
        let text = format!("{} bad places passed over", totals.bad_places);
        lines.push(Line::from(text).fg(Color::Yellow));
    }
    if let Some(verdict) = rates.verdict {
        use crate::channel::Stage;
        let remedy = match verdict.stage {
            Stage::Source => &channel.remedies.source,
            Stage::Decoder => &channel.remedies.decoder,
            Stage::Consumer => &channel.remedies.consumer,
        };
        let text = format!("the {} holds it back: {remedy}", verdict.stage.word());
        lines.push(Line::from(text).bold());
    }
    lines
}

/// Where the time of the last seconds went, as a bar with its key.
fn shares(rates: &Rates) -> Line<'static> {
    let mut spans = vec![Span::from("time  ")];
    for ((name, color), share) in STAGES.into_iter().zip(rates.shares) {
        let cells = (share * 30.0).round() as usize;
        spans.push(Span::from("█".repeat(cells)).fg(color));
        spans.push(Span::from(format!(" {name} {:.0}%  ", share * 100.0)));
    }
    Line::from(spans)
}

fn consumer_list(frame: &mut Frame<'_>, area: Rect, consumers: &[ConsumerStatus]) {
    if consumers.is_empty() {
        frame.render_widget(Line::from("no consumer is connected").style(Modifier::DIM), area);
        return;
    }
    let rows = consumers.iter().map(|consumer| {
        let oldest = consumer.oldest.map_or_else(String::new, |age| format!("{age:.1} s"));
        Row::new([
            consumer.pid.to_string(),
            format!("{} of {}", consumer.held, consumer.credits),
            consumer.unacked.to_string(),
            oldest,
            consumer.client.clone(),
        ])
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Fill(1),
    ];
    let head = ["consumer", "holds", "not ACKed", "oldest", "client"];
    let table = Table::new(rows, widths).header(Row::new(head).style(Modifier::DIM));
    frame.render_widget(table, area);
}
