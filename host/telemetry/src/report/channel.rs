//! Writes the section of one channel.

use std::fmt::Write;

use pipemill_channel::{DECODE_BUCKETS, Failure, Stage, StatsSnapshot};
use pipemill_ring::host::WaitTimes;
use pipemill_types::{ErrorKind, Position};

use super::markup::{Escaped, Prose};
use super::view::ChannelView;
use super::{over_time, units};
use crate::{Bottleneck, ChannelState};

/// Writes the section of a channel. `number` is that of the channel, from 0.
pub(super) fn write(page: &mut String, number: usize, view: &ChannelView<'_>) {
    let _ = writeln!(
        page,
        "<section id=\"channel-{number}\">\n<h2>{} <span class=\"state {}\">{}</span></h2>\n\
         <p class=\"from\">{} · decoder {}</p>",
        Escaped(view.now.name),
        view.end().replace(' ', "-"),
        view.end(),
        Escaped(view.source_text()),
        Escaped(view.now.decoder)
    );
    if let ChannelState::Failed(failure) = view.now.state {
        write_failure(page, failure);
    }
    if view.now.is_unread() {
        page.push_str(
            "<p><strong>No consumer has read any of it.</strong> See whether \
             training opens this channel, or leave the channel out.</p>\n",
        );
    }
    if let Some(waited) = view.waited() {
        let _ = writeln!(page, "<p><strong>When the run ended, {}.</strong></p>", Prose(&waited));
    }
    if let Some(bottleneck) = view.now.bottleneck() {
        let words = bottleneck.words(view.now.source, view.now.cores, view.now.missed_consumers());
        let (stage, remedy) = words.split_once(": ").unwrap_or((&words, ""));
        let _ = writeln!(
            page,
            "<p class=\"bottleneck\"><strong>{}.</strong> {}.</p>",
            Prose(&capitalized(stage)),
            Prose(&capitalized(remedy))
        );
    }
    write_shares(page, &view.now.totals);
    write_figures(page, view);
    over_time::write(page, view);
    write_epochs(page, view);
    write_consumers(page, view);
    write_calls(page, view);
    write_decode_errors(page, view);
    page.push_str("</section>\n");
}

/// Writes the shares of the stages as one bar with a legend.
pub(super) fn write_shares(page: &mut String, totals: &StatsSnapshot) {
    let time = totals.time().as_secs_f64();
    if time == 0.0 {
        return;
    }
    page.push_str("<div class=\"shares\"><svg width=\"100%\" height=\"10\" aria-hidden=\"true\">");
    let mut left = 0.0;
    for stage in Stage::ALL {
        let part = 100.0 * totals.of(stage).as_secs_f64() / time;
        let word = stage.word();
        let _ = write!(
            page,
            "<rect class=\"area {word}\" x=\"{left:.2}%\" width=\"{part:.2}%\" height=\"10\"/>"
        );
        left += part;
    }
    page.push_str("</svg><ul class=\"legend\">");
    for stage in Stage::ALL {
        let (word, part) = (stage.word(), totals.of(stage).as_secs_f64() / time);
        let _ = write!(page, "<li class=\"{word}\">{word} {}</li>", units::percent(part));
    }
    page.push_str("</ul></div>\n");
}

fn write_failure(page: &mut String, failure: &Failure) {
    let Failure { fault, position, decoder, bytes, .. } = failure;
    let Position { epoch, object, offset, record } = position;
    let _ = write!(page, "<div class=\"failure\"><p>{}</p>\n<dl>", Prose(&fault.message));
    let mut pair = |name: &str, value: String| {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    if !fault.remedy.is_empty() {
        pair("What to do", Prose(&fault.remedy).to_string());
    }
    if let Some(object) = object {
        pair("Object", Escaped(object).to_string());
    }
    pair("Epoch", epoch.to_string());
    if let Some(offset) = offset {
        pair("Byte offset", units::counted(*offset));
    }
    if let Some(record) = record {
        pair("Record", units::counted(*record));
    }
    pair("Decoder", Escaped(decoder).to_string());
    pair("Kind", fault.kind.word().to_owned());
    if !bytes.is_empty() {
        let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        pair("Bytes there", format!("<code>{}</code>", hex.join(" ")));
    }
    page.push_str("</dl></div>\n");
}

fn write_figures(page: &mut String, view: &ChannelView<'_>) {
    let totals = &view.now.totals;
    let rate = |count: u64, unit| units::scaled(per_second(count, totals), unit);
    let bytes = units::scaled(totals.bytes as f64, "B");
    let mut figures = vec![
        ("Records", units::counted(totals.records)),
        ("Bytes", format!("<data value=\"{}\">{bytes}</data>", totals.bytes)),
        ("Time", units::time(totals.time())),
        ("Throughput", rate(totals.bytes, "B/s")),
        ("Records a second", rate(totals.records, "")),
        ("Objects", units::counted(totals.objects)),
        ("Batches", units::counted(totals.batches)),
        ("Decoder’s memory", units::memory(view.now.decoder_memory)),
    ];
    if totals.decode_errors > 0 {
        figures.push(("Decode errors skipped", units::counted(totals.decode_errors)));
    }
    if let Some(percent) = view.now.cache.and_then(|cache| cache.percent()) {
        figures.push(("From the cache", format!("{percent} %")));
    }
    page.push_str("<dl class=\"figures\">");
    for (name, value) in figures {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    page.push_str("</dl>\n");
}

fn write_epochs(page: &mut String, view: &ChannelView<'_>) {
    let rest = view.unfinished_epoch();
    if view.now.epochs.is_empty() && rest.is_none() {
        return;
    }
    page.push_str(
        "<h3>Epochs</h3>\n<div class=\"wide\" role=\"region\" aria-label=\"Epochs\" \
         tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Epoch</th>\
         <th scope=\"col\">Records</th><th scope=\"col\">Bytes</th><th scope=\"col\">Time</th>\
         <th scope=\"col\">Throughput</th><th scope=\"col\">Records/s</th>\
         <th scope=\"col\">Source</th><th scope=\"col\">Decoder</th><th scope=\"col\">Batch</th>\
         <th scope=\"col\">Consumer</th><th scope=\"col\">Cores</th>\
         <th scope=\"col\">Decode errors</th><th scope=\"col\">Waited for</th></tr></thead>\n\
         <tbody>\n",
    );
    for epoch in &view.now.epochs {
        write_epoch(
            page,
            epoch.number,
            if epoch.early { ", ended early" } else { "" },
            &epoch.totals,
        );
    }
    if let Some(rest) = rest {
        let number = view.now.epochs.last().map_or(0, |epoch| epoch.number + 1);
        write_epoch(page, number, ", not ended", &rest);
    }
    page.push_str("</tbody></table></div>\n");
}

fn write_epoch(page: &mut String, number: u32, note: &str, totals: &StatsSnapshot) {
    let time = totals.time().as_secs_f64().max(1e-9);
    let part = |stage| units::percent(totals.of(stage).as_secs_f64() / time);
    let _ = write!(page, "<tr><th scope=\"row\">{number}{note}</th>");
    let cells = [
        units::counted(totals.records),
        units::scaled(totals.bytes as f64, "B"),
        units::time(totals.time()),
        units::scaled(per_second(totals.bytes, totals), "B/s"),
        units::scaled(per_second(totals.records, totals), ""),
        part(Stage::Source),
        part(Stage::Decoder),
        part(Stage::Batch),
        part(Stage::Consumer),
        part(Stage::Cores),
        units::counted(totals.decode_errors),
        Bottleneck::of(totals).map_or("–", |bottleneck| bottleneck.stage.word()).to_owned(),
    ];
    for cell in cells {
        let _ = write!(page, "<td>{cell}</td>");
    }
    page.push_str("</tr>\n");
}

/// Writes how long each consumer waited for its batches: the connected consumers, and the last ones
/// that have disconnected.
fn write_consumers(page: &mut String, view: &ChannelView<'_>) {
    let consumers = view.now.left_consumers.iter().chain(&view.now.ring.consumers);
    let mut consumers: Vec<_> = consumers.filter(|one| one.waits.count > 0).collect();
    if consumers.is_empty() {
        return;
    }
    consumers.sort_by_key(|one| one.rank);
    page.push_str(
        "<h3>How long consumers waited for a batch</h3>\n<div class=\"wide\" role=\"region\" \
         aria-label=\"How long consumers waited for a batch\" tabindex=\"0\"><table>\n<thead><tr>\
         <th scope=\"col\">Consumer</th><th scope=\"col\">Batches</th><th scope=\"col\">p50</th>\
         <th scope=\"col\">p95</th><th scope=\"col\">p99</th><th scope=\"col\">Longest</th>\
         <th scope=\"col\">All together</th></tr></thead>\n<tbody>\n",
    );
    for one in consumers {
        let rank = one.rank.map_or_else(String::new, |rank| format!("rank {rank}, "));
        let name = format!("{rank}process {}, {}", one.pid, one.client);
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", Escaped(&name));
        let _ = write!(page, "<td>{}</td>", units::counted(one.waits.count));
        let WaitTimes { p50, p95, p99, longest, total, .. } = one.waits;
        for time in [p50, p95, p99, longest, total] {
            let _ = write!(page, "<td>{}</td>", units::time(time));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// Writes how long the calls of the decoder took, as a table with bars.
fn write_calls(page: &mut String, view: &ChannelView<'_>) {
    let (Some(first), Some(last)) = (
        view.now.calls.iter().position(|calls| *calls > 0),
        view.now.calls.iter().rposition(|calls| *calls > 0),
    ) else {
        return;
    };
    let most = view.now.calls.iter().copied().max().unwrap_or(1).max(1);
    page.push_str(
        "<h3>Calls of the decoder, by the time that they took</h3>\n<table class=\"bars\">\n\
         <thead><tr><th scope=\"col\">Time</th><th scope=\"col\">Calls</th><td></td></tr></thead>\n\
         <tbody>\n",
    );
    for (bucket, calls) in view.now.calls.iter().enumerate().take(last + 1).skip(first) {
        let bound = match DECODE_BUCKETS.get(bucket) {
            Some(bound) => format!("up to {}", units::time(*bound)),
            None => format!("over {}", units::time(DECODE_BUCKETS[DECODE_BUCKETS.len() - 1])),
        };
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{bound}</th><td>{}</td><td aria-hidden=\"true\">\
             <svg width=\"100%\" height=\"10\">\
             <rect class=\"area decoder\" width=\"{:.2}%\" height=\"10\"/></svg></td></tr>",
            units::counted(*calls),
            100.0 * *calls as f64 / most as f64
        );
    }
    page.push_str("</tbody></table>\n");
}

fn write_decode_errors(page: &mut String, view: &ChannelView<'_>) {
    if view.now.totals.decode_errors == 0 {
        return;
    }
    page.push_str(
        "<h3>Decode errors skipped, by kind</h3>\n<table class=\"plain\">\n\
         <thead><tr><th scope=\"col\">Kind</th><th scope=\"col\">Errors</th></tr></thead>\n\
         <tbody>\n",
    );
    for (kind, count) in view.now.decode_errors.iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            meaning(*kind),
            units::counted(*count)
        );
    }
    page.push_str("</tbody></table>\n");
}

/// A kind of decode error, in words for a person.
fn meaning(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Decode => "the input does not fit its format",
        ErrorKind::Refused => "the decoder refuses its options or the input",
        ErrorKind::Plugin => "the decoder failed",
        ErrorKind::Source => "the input can’t be read",
        ErrorKind::Limit => "a limit of the decoder was hit",
        ErrorKind::TooLarge => "a record is larger than max_record",
        ErrorKind::Host => "the host failed",
    }
}

fn per_second(count: u64, totals: &StatsSnapshot) -> f64 {
    count as f64 / totals.time().as_secs_f64().max(1e-9)
}

/// The text with a capital first letter.
fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
