//! Draws a host's status: a line for each channel, and below them the details of the selected
//! channel.

use indicatif::BinaryBytes;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Cell, HighlightSpacing, Paragraph, Row, Sparkline, Table, TableState, Wrap,
};

use pipemill_channel::Stage;

use super::history::{Rates, StatusHistory};
use super::table;
use pipemill_telemetry::status::{ChannelStatus, ConsumerStatus, RingStatus, WaitTimesStatus};

const SOURCE: Color = Color::Blue;
const DECODER: Color = Color::Magenta;
const CONSUMER: Color = Color::Green;
const BATCH: Color = Color::Cyan;
const CORES: Color = Color::Red;
/// In the order of [`Stage::ALL`].
const STAGE_COLORS: [Color; 5] = [SOURCE, DECODER, BATCH, CONSUMER, CORES];

/// The hosts to choose from with the keys.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// Number of the host that is shown, from 1.
    pub(super) host: usize,
    /// Number of hosts.
    pub(super) hosts: usize,
}

impl Keys {
    fn line(self) -> Line<'static> {
        let Self { host, hosts } = self;
        let keys = if hosts > 1 {
            format!("↑ ↓ another channel   Tab another host ({host} of {hosts})   q end")
        } else {
            "↑ ↓ another channel   q end".to_owned()
        };
        Line::from(keys).style(Modifier::DIM)
    }
}

/// Draws the last status of a host.
pub(super) fn draw(frame: &mut Frame<'_>, history: &StatusHistory, selected: usize, keys: Keys) {
    let Some(status) = history.last() else { return };
    let selected = selected.min(status.channels.len().saturating_sub(1));
    let rows = status.channels.len() as u16 + 3;
    let [top, list, detail, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Max(rows),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(table::heading(status)).bold(), top);
    channels(frame, list, history, selected);
    if let Some(channel) = status.channels.get(selected) {
        details(frame, detail, history, channel);
    }
    frame.render_widget(keys.line(), bottom);
}

fn channels(frame: &mut Frame<'_>, area: Rect, history: &StatusHistory, selected: usize) {
    let Some(status) = history.last() else { return };
    let columns: Vec<_> = COLUMNS.iter().filter(|column| area.width >= column.from).collect();
    let rows = status.channels.iter().map(|channel| {
        let rates = history.rates(&channel.name);
        Row::new(columns.iter().map(|column| (column.cell)(channel, &rates)))
    });
    let widths = columns.iter().map(|column| column.width);
    let head = Row::new(columns.iter().map(|column| column.head)).style(Modifier::DIM);
    let table = Table::new(rows, widths)
        .header(head)
        // Reversed colors would show the bar of slots in wrong colors.
        .highlight_symbol("▸ ")
        .highlight_spacing(HighlightSpacing::Always)
        .block(Block::bordered().title(" channels "));
    let mut state = TableState::new().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut state);
}

/// A column of the list of channels.
struct Column {
    head: &'static str,
    /// Smallest width of the terminal, in cells, at which the column is shown: the channel's name
    /// keeps 11 cells or more from 40 on.
    from: u16,
    width: Constraint,
    cell: fn(&ChannelStatus, &Rates) -> Cell<'static>,
}

static COLUMNS: [Column; 8] = [
    Column {
        head: "channel",
        from: 0,
        width: Constraint::Fill(1),
        cell: |channel, _| Cell::from(channel.name.clone().bold()),
    },
    Column {
        head: "state",
        from: 0,
        width: Constraint::Length(7),
        cell: |channel, _| state(channel),
    },
    Column {
        head: "epoch",
        from: 60,
        width: Constraint::Length(9),
        cell: |channel, _| Cell::from(table::epoch(channel)),
    },
    Column {
        head: "records/s",
        from: 50,
        width: Constraint::Length(9),
        cell: |_, rates| Cell::from(format!("{:.0}", rates.records)),
    },
    Column {
        head: "rate",
        from: 71,
        width: Constraint::Length(12),
        cell: |_, rates| Cell::from(format!("{}/s", BinaryBytes(rates.bytes as u64))),
    },
    Column {
        head: "slots",
        from: 80,
        width: Constraint::Length(SLOTS_WIDTH),
        cell: |channel, _| Cell::from(slots(&channel.ring)),
    },
    Column {
        head: "waits for",
        from: 40,
        width: Constraint::Length(13),
        cell: |channel, rates| {
            let bottleneck = || {
                let bottleneck = rates.bottleneck?;
                Some(format!("{} {}%", bottleneck.stage.word(), bottleneck.percent))
            };
            let wait = channel.waits_for.as_ref().map(|wait| wait.reason.clone());
            Cell::from(wait.or_else(bottleneck).unwrap_or_default())
        },
    },
    Column {
        head: "consumers",
        from: 100,
        width: Constraint::Length(9),
        cell: |channel, _| Cell::from(channel.ring.consumers.len().to_string()),
    },
];

fn state(channel: &ChannelStatus) -> Cell<'static> {
    let word = table::state(channel).to_owned();
    Cell::from(match word.as_str() {
        "failed" => word.red(),
        "waiting" => word.yellow(),
        "running" => word.into(),
        _ => word.dim(),
    })
}

/// Width of the bar of slots, in cells.
const SLOTS_WIDTH: u16 = 12;

/// The slots as a bar: granted, ready, filling, free.
fn slots(ring: &RingStatus) -> Line<'static> {
    let width = u32::from(SLOTS_WIDTH);
    let all = (ring.granted + ring.ready + ring.filling + ring.free).max(1);
    let states = [
        (ring.granted, '█', CONSUMER),
        (ring.ready, '▓', Color::Yellow),
        (ring.filling, '▒', SOURCE),
        (ring.free, '░', Color::DarkGray),
    ];
    let mut before = 0;
    let parts = states.map(|(slots, shade, color)| {
        // The sums are rounded, not the parts: so the whole bar has the right width.
        let cells = (before + slots) * width / all - before * width / all;
        before += slots;
        Span::from(shade.to_string().repeat(cells as usize)).fg(color)
    });
    Line::from_iter(parts)
}

fn details(frame: &mut Frame<'_>, area: Rect, history: &StatusHistory, channel: &ChannelStatus) {
    let block = Block::bordered().title(format!(" {} ", channel.name));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let lines = facts(channel, &history.rates(&channel.name));
    // Lines are wrapped at words: estimate that 9 of 10 cells are filled.
    let filled = (usize::from(inner.width) * 9 / 10).max(1);
    let height = lines.iter().map(|line| line.width().div_ceil(filled)).sum::<usize>() as u16;
    let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false });
    let consumers = channel.ring.consumers.len() as u16;
    let [facts, spark, list] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Max(GRAPH_HEIGHT),
        Constraint::Max(if consumers == 0 { 1 } else { consumers + 1 }),
    ])
    .areas(inner);
    frame.render_widget(paragraph, facts);
    let rates = history.byte_rates(&channel.name);
    let shown = &rates[rates.len().saturating_sub(spark.width.into())..];
    let peak = BinaryBytes(shown.iter().copied().max().unwrap_or(0));
    let title = Line::from(format!("bytes a second, at most {peak}/s")).style(Modifier::DIM);
    let sparkline = Sparkline::default().data(shown).style(SOURCE);
    frame.render_widget(sparkline.block(Block::new().title(title)), spark);
    consumer_list(frame, list, &channel.ring.consumers);
}

/// Height of the graph of the rate, in lines, with its title.
const GRAPH_HEIGHT: u16 = 7;

/// The details of a channel as lines of text.
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
    if let Some(wait) = table::wait(channel) {
        lines.push(Line::from(wait).fg(Color::Yellow));
    }
    if totals.decode_errors > 0 {
        let text = format!("{} decode errors skipped", totals.decode_errors);
        lines.push(Line::from(text).fg(Color::Yellow));
    }
    // A channel that lacks something has no other bottleneck.
    if let Some(bottleneck) = rates.bottleneck.filter(|_| channel.waits_for.is_none()) {
        let remedy = channel.remedies.of(bottleneck.stage);
        let text = format!("bottleneck: {}: {remedy}", bottleneck.stage.word());
        lines.push(Line::from(text).bold());
    }
    lines
}

/// The stages' shares of the time of the last seconds, as a bar with its legend.
fn shares(rates: &Rates) -> Line<'static> {
    let mut spans = vec![Span::from("time  ")];
    for ((stage, color), share) in Stage::ALL.into_iter().zip(STAGE_COLORS).zip(rates.shares) {
        let name = stage.word();
        let cells = (share * 30.0).round() as usize;
        spans.push(Span::from("█".repeat(cells)).fg(color));
        spans.push(Span::from(format!(" {name} {:.0}%  ", share * 100.0)));
    }
    Line::from(spans)
}

/// The percentiles of a consumer's waits, in milliseconds.
fn waits(times: &WaitTimesStatus) -> String {
    let [p50, p95, p99] = [times.p50, times.p95, times.p99].map(|seconds| 1e3 * seconds);
    if times.count == 0 { String::new() } else { format!("{p50:.1}/{p95:.1}/{p99:.1}") }
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
            waits(&consumer.waits),
            match consumer.rank {
                Some(rank) => format!("rank {rank}, {}", consumer.client),
                None => consumer.client.clone(),
            },
        ])
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(24),
        Constraint::Fill(1),
    ];
    let head = ["consumer", "holds", "not ACKed", "oldest", "waits p50/95/99, ms", "client"];
    let table = Table::new(rows, widths).header(Row::new(head).style(Modifier::DIM));
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use pipemill_telemetry::status::{Status, WaitStatus};

    /// A history of `count` answers, one each second.
    fn history(count: u64) -> StatusHistory {
        let text = include_str!("status.json");
        let mut status: Status = serde_json::from_str(text).expect("it is a status");
        let (mut history, began) = (StatusHistory::default(), Instant::now());
        for second in 0..count {
            history.add(began + Duration::from_secs(second), status.clone());
            let totals = &mut status.channels[0].totals;
            totals.bytes += (second + 1) << 20;
            totals.records += 1000;
            totals.source += 0.75;
            totals.consumer += 0.25;
        }
        history
    }

    fn shown(width: u16, height: u16, history: &StatusHistory, selected: usize) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        let keys = Keys { host: 1, hosts: 1 };
        terminal.draw(|frame| draw(frame, history, selected, keys)).expect("memory");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn the_bottleneck_of_a_channel_and_its_remedy_are_shown() {
        let screen = shown(120, 30, &history(10), 0);
        let has = |words: &[&str]| {
            screen.lines().any(|line| words.iter().all(|word| line.contains(word)))
        };
        assert!(has(&["process 4711", "up 12 seconds", "not ready"]), "{screen}");
        assert!(has(&["train", "running", "3 42%", "1000", "MiB/s", "source 75%"]), "{screen}");
        assert!(has(&["time", "source 75%", "decoder 0%", "consumer 25%"]), "{screen}");
        assert!(has(&["bottleneck: source: raise `concurrency`"]), "{screen}");
        assert!(has(&["4712", "2 of 2", "0.2/4.0/31.5", "rank 1, python 3.11"]), "{screen}");
        assert!(has(&["bytes a second, at most 9.00 MiB/s"]), "{screen}");
    }

    #[test]
    fn what_a_channel_lacks_is_shown_instead_of_its_bottleneck() {
        let text = include_str!("status.json");
        let mut status: Status = serde_json::from_str(text).expect("it is a status");
        let channel = &mut status.channels[0];
        channel.waits_for = Some(WaitStatus {
            reason: "consumers".to_owned(),
            what: "more consumers: 1 of 2 consumers of `train`".to_owned(),
            seconds: 90.5,
            remedy: "start the others, or lower `consumers`".to_owned(),
        });
        let text = table::text(&status);
        let mut history = StatusHistory::default();
        history.add(Instant::now(), status);
        let screen = shown(120, 30, &history, 0);
        assert!(!screen.contains("raise `concurrency`"), "{screen}");
        let row = screen.lines().find(|line| line.contains("train") && line.contains("running"));
        assert_eq!(row, None, "{screen}");
        let row = screen.lines().find(|line| line.contains("train") && line.contains("waiting "));
        let row = row.expect("the channel's row");
        assert!(row.contains(" consumers ") && !row.contains("75%"), "{screen}");
        let line = "it has waited 1m 30s for more consumers: 1 of 2 consumers of `train`; start";
        assert!(screen.contains(line), "{screen}");
        assert!(text.contains(line) && !text.contains("raise `concurrency`"), "{text}");
        assert!(text.contains("\ntrain    waiting  3 "), "{text}");
    }

    #[test]
    fn the_keys_say_which_of_several_hosts_is_shown() {
        let text = |keys: Keys| keys.line().to_string();
        assert!(!text(Keys { host: 1, hosts: 1 }).contains("host"));
        assert!(text(Keys { host: 2, hosts: 3 }).contains("Tab another host (2 of 3)"));
    }

    /// Columns disappear to make room for the names of the channels.
    #[test]
    fn a_narrow_terminal_shows_names_and_what_is_waited_for() {
        for (width, heads) in [
            (120, "channel state epoch records/s rate slots waits for consumers"),
            (80, "channel state epoch records/s rate slots waits for"),
            (60, "channel state epoch records/s waits for"),
            (40, "channel state waits for"),
            (30, "channel state"),
        ] {
            let screen = shown(width, 30, &history(10), 0);
            let lines: Vec<_> = screen.lines().collect();
            let words = |line: &str| {
                line.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
            };
            assert_eq!(words(lines[2]), heads, "{screen}");
            assert!(lines[3].contains("train ") && lines[3].contains(" running"), "{screen}");
            assert_eq!(lines[3].contains("source 75%"), width >= 40, "{screen}");
        }
    }

    #[test]
    fn the_whole_message_of_a_failure_is_shown() {
        let screen = shown(120, 30, &history(3), 1);
        assert!(screen.contains("channel `test`, epoch 0, object a, byte offset 7"), "{screen}");
        assert!(screen.contains("no consumer is connected"), "{screen}");
    }

    #[test]
    fn terminals_of_any_size_can_be_drawn() {
        let history = history(500);
        for (width, height) in [(1, 1), (2, 9), (20, 3), (40, 12), (80, 24), (300, 100)] {
            let screen = shown(width, height, &history, 7);
            if width >= 80 {
                assert!(screen.contains("train") && screen.contains("test"), "{screen}");
            }
        }
        shown(80, 24, &StatusHistory::default(), 0);
    }
}
