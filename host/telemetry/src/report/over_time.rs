//! Writes the plots of a channel over time, and a table of their numbers.

use std::fmt::Write;
use std::time::Duration;

use pipemill_channel::{Stage, StatsSnapshot};

use super::markup::Escaped;
use super::plot::{Layer, Mark, Plot};
use super::scale::Scale;
use super::units;
use super::view::ChannelView;
use crate::{Sample, SlotCounts};

/// Largest number of steps of a plot.
const MAX_STEPS: usize = 120;
/// Largest number of rows of the table.
const MAX_ROWS: usize = 20;
/// Largest number of epochs whose borders are drawn. With more epochs, no border is drawn.
const MAX_MARKS: usize = 60;

/// A channel's totals between two samples.
struct Interval {
    totals: StatsSnapshot,
    /// The slots at its end.
    slots: SlotCounts,
}

impl Interval {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.totals.time().as_secs_f64().max(1e-9)
    }

    fn part(&self, stage: Stage) -> f64 {
        self.totals.of(stage).as_secs_f64() / self.totals.time().as_secs_f64().max(1e-9)
    }
}

/// Steps of about the same length, and their edges in seconds.
struct Steps {
    edges: Vec<f64>,
    steps: Vec<Interval>,
}

impl Steps {
    /// At most `max_steps` steps that cover all samples.
    fn of(samples: &[Sample], max_steps: usize) -> Self {
        let apart = samples.len().saturating_sub(1).div_ceil(max_steps).max(1);
        let mut chosen: Vec<_> = samples.iter().step_by(apart).collect();
        if let Some(last) = samples.last()
            && !samples.len().saturating_sub(1).is_multiple_of(apart)
        {
            chosen.push(last);
        }
        // A short last step joins the one before it, because its rate would mean little.
        if let [.., first, second, last] = chosen.as_slice() {
            let [first, second, last] = [first, second, last].map(|sample| sample.totals.time());
            if last - second < (second - first) / 2 {
                chosen.remove(chosen.len() - 2);
            }
        }
        let edges = chosen.iter().map(|sample| sample.totals.time().as_secs_f64()).collect();
        let step = |two: &[&Sample]| Interval {
            totals: two[1].totals.since(&two[0].totals),
            slots: two[1].slots,
        };
        Self { edges, steps: chosen.windows(2).map(step).collect() }
    }

    fn spans(&self) -> impl Iterator<Item = (String, &Interval)> {
        let time = |seconds| units::time(Duration::from_secs_f64(seconds));
        let span = move |edges: &[f64]| format!("{} – {}", time(edges[0]), time(edges[1]));
        self.edges.windows(2).map(span).zip(&self.steps)
    }
}

/// Writes the plots of a channel and their table.
pub(super) fn write(page: &mut String, view: &ChannelView<'_>) {
    let steps = Steps::of(&view.samples, MAX_STEPS);
    if steps.steps.len() < 2 {
        page.push_str("<p class=\"note\">It took too short a time to plot.</p>\n");
        return;
    }
    let marks = marks(view);
    let seconds = view.now.totals.time().as_secs_f64().max(1e-9);
    let mean = |count: u64, unit: &str| units::scaled(count as f64 / seconds, unit);
    rate(page, &steps, &marks, "Throughput", "bytes", "B/s", |totals| totals.bytes, {
        mean(view.now.totals.bytes, "B/s")
    });
    rate(page, &steps, &marks, "Records a second", "records", "", |totals| totals.records, {
        mean(view.now.totals.records, "")
    });
    stages(page, &steps, &marks, &view.now.totals);
    slots(page, &steps, &marks);
    table(page, &Steps::of(&view.samples, MAX_ROWS));
}

/// The beginnings of epochs. Empty if there is only one epoch.
fn marks(view: &ChannelView<'_>) -> Vec<Mark> {
    let rest =
        view.unfinished_epoch().map(|_| view.now.epochs.last().map_or(0, |epoch| epoch.number + 1));
    let numbers: Vec<_> = view.now.epochs.iter().map(|epoch| epoch.number).chain(rest).collect();
    let whole = numbers.iter().zip(&numbers[1.min(numbers.len())..]).all(|(a, b)| a + 1 == *b);
    // If the first epochs are not kept, the beginnings of the others are not known.
    if !(2..=MAX_MARKS).contains(&numbers.len()) || !whole {
        return Vec::new();
    }
    let mut at = 0.0;
    let mut marks = Vec::new();
    for (index, number) in numbers.iter().enumerate() {
        let label = if index == 0 { format!("epoch {number}") } else { number.to_string() };
        marks.push(Mark { at, label });
        at += view.now.epochs.get(index).map_or(0.0, |epoch| epoch.totals.time().as_secs_f64());
    }
    marks
}

#[expect(clippy::too_many_arguments, reason = "private, with only two calls")]
fn rate(
    page: &mut String,
    steps: &Steps,
    marks: &[Mark],
    title: &str,
    class: &str,
    unit: &str,
    of: impl Fn(&StatsSnapshot) -> u64,
    mean: String,
) {
    let values: Vec<_> = steps.steps.iter().map(|step| step.per_second(of(&step.totals))).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let tips = steps.spans().zip(&values);
    let tips = tips.map(|((span, _), value)| format!("{span}: {}", units::scaled(*value, unit)));
    let plot = Plot {
        title,
        summary: format!("{mean} in the mean, {} at most", units::scaled(most, unit)),
        edges: &steps.edges,
        scale: Scale::of_numbers(most, unit),
        tips: tips.collect(),
        layers: vec![Layer { class, name: title, values }],
        marks,
    };
    plot.write(page);
}

fn stages(page: &mut String, steps: &Steps, marks: &[Mark], totals: &StatsSnapshot) {
    let words = |part: &dyn Fn(Stage) -> f64| {
        let word = |stage: Stage| format!("{} {}", stage.word(), units::percent(part(stage)));
        Stage::ALL.map(word).join(", ")
    };
    let whole = Interval { totals: *totals, slots: SlotCounts::default() };
    let layer = |stage: Stage| Layer {
        class: stage.word(),
        name: stage.word(),
        values: steps.steps.iter().map(|step| step.part(stage)).collect(),
    };
    let tip = |(span, step): (String, &Interval)| format!("{span}: {}", words(&|s| step.part(s)));
    let plot = Plot {
        title: "Where the time went",
        summary: words(&|stage| whole.part(stage)),
        edges: &steps.edges,
        scale: Scale::of_parts(),
        layers: Stage::ALL.map(layer).into(),
        tips: steps.spans().map(tip).collect(),
        marks,
    };
    plot.write(page);
}

fn slots(page: &mut String, steps: &Steps, marks: &[Mark]) {
    type Count = fn(&SlotCounts) -> u32;
    let states: [(&str, &str, Count); 3] = [
        ("granted", "with consumers", |slots| slots.granted),
        ("ready", "ready", |slots| slots.ready),
        ("filling", "being filled", |slots| slots.filling),
    ];
    let all = |slots: &SlotCounts| slots.free + slots.filling + slots.ready + slots.granted;
    let most = steps.steps.iter().map(|step| all(&step.slots)).max().unwrap_or_default();
    let layer = |(class, name, of): (&'static str, &'static str, Count)| Layer {
        class,
        name,
        values: steps.steps.iter().map(|step| f64::from(of(&step.slots))).collect(),
    };
    let tip = |(span, step): (String, &Interval)| {
        let said = states.map(|(_, name, of)| format!("{} {name}", of(&step.slots)));
        format!("{span}: {}, {} free", said.join(", "), step.slots.free)
    };
    let full = |step: &&Interval| step.slots.free == 0;
    let plot = Plot {
        title: "Slots in use",
        summary: format!(
            "{most} slots; none was free at {} of {} moments",
            steps.steps.iter().filter(full).count(),
            steps.steps.len()
        ),
        edges: &steps.edges,
        scale: Scale::of_whole(most),
        layers: states.map(layer).into(),
        tips: steps.spans().map(tip).collect(),
        marks,
    };
    plot.write(page);
}

fn table(page: &mut String, steps: &Steps) {
    page.push_str(
        "<details><summary>The plots in numbers</summary>\n<div class=\"wide\" role=\"region\" \
         aria-label=\"The plots in numbers\" tabindex=\"0\"><table>\n<thead><tr>\
         <th scope=\"col\">Time</th><th scope=\"col\">Throughput</th>\
         <th scope=\"col\">Records/s</th>\
         <th scope=\"col\">Source</th><th scope=\"col\">Decoder</th><th scope=\"col\">Consumer</th>\
         <th scope=\"col\">Slots in use</th></tr></thead>\n<tbody>\n",
    );
    for (span, step) in steps.spans() {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", Escaped(span));
        let [bytes, records] =
            [step.totals.bytes, step.totals.records].map(|count| step.per_second(count));
        let parts = Stage::ALL.map(|stage| units::percent(step.part(stage)));
        let SlotCounts { filling, ready, granted, .. } = step.slots;
        let used = (filling + ready + granted).to_string();
        let rates = [units::scaled(bytes, "B/s"), units::scaled(records, "")];
        for cell in rates.iter().chain(&parts).chain([&used]) {
            let _ = write!(page, "<td>{cell}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div></details>\n");
}

#[cfg(test)]
mod tests {
    use pipemill_channel::StageTimes;

    use super::*;

    fn sample(millis: u64) -> Sample {
        let source = Duration::from_millis(millis);
        let stages = StageTimes::default().with(Stage::Source, source);
        let totals = StatsSnapshot { stages, bytes: 1000 * millis, ..StatsSnapshot::default() };
        Sample { totals, slots: SlotCounts::default() }
    }

    #[test]
    fn steps_are_bounded_and_keep_all_counts() {
        for count in [0, 1, 2, 3, 119, 120, 121, 122, 600] {
            let samples: Vec<_> = (0..count).map(|at| sample(50 * at)).collect();
            let steps = Steps::of(&samples, MAX_STEPS);
            assert!(steps.steps.len() <= MAX_STEPS, "{count}");
            let bytes: u64 = steps.steps.iter().map(|step| step.totals.bytes).sum();
            assert_eq!(bytes, samples.last().map_or(0, |last| last.totals.bytes), "{count}");
            assert!(
                steps
                    .steps
                    .iter()
                    .all(|step| (step.per_second(step.totals.bytes) - 1e6).abs() < 1.0)
            );
        }
    }

    #[test]
    fn a_short_last_step_joins_the_one_before() {
        let steps = Steps::of(&[0, 50, 100, 150, 152].map(sample), MAX_STEPS);
        assert_eq!(steps.edges, [0.0, 0.05, 0.1, 0.152]);
    }
}
