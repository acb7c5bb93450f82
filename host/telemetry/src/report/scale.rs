//! The ticks of an axis: a few round numbers.

use std::time::Duration;

use super::units;

/// An axis that begins at 0.
pub(super) struct Scale {
    /// The value at its end.
    pub(super) end: f64,
    /// The ticks with their labels. 0 is one of them.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// An axis of numbers. It ends at the first tick that is not below `max`.
    pub(super) fn of_numbers(max: f64, unit: &str) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        // Round in the unit that is shown.
        let factor = units::prefix(max, unit).factor;
        let step = round_step(max / factor / 3.0) * factor;
        let count = (max / step - 1e-9).ceil();
        let ticks = (0..=count as u32).map(f64::from).map(|tick| tick * step);
        let label = |tick| if tick == 0.0 { "0".to_owned() } else { units::scaled(tick, unit) };
        Self { end: count * step, ticks: ticks.map(|tick| (tick, label(tick))).collect() }
    }

    /// An axis of counts. It ends at `max`.
    pub(super) fn of_whole(max: u32) -> Self {
        let step = round_step(f64::from(max) / 4.0).max(1.0);
        let ticks = (0..=max).step_by(step as usize);
        let ticks = ticks.map(|tick| (f64::from(tick), units::count(u64::from(tick)))).collect();
        Self { end: f64::from(max.max(1)), ticks }
    }

    /// An axis of shares, from 0 to 100 %.
    pub(super) fn of_parts() -> Self {
        let ticks = [0.0, 0.25, 0.5, 0.75, 1.0];
        Self { end: 1.0, ticks: ticks.map(|part| (part, units::percent(part))).into() }
    }

    /// An axis of time that ends at `seconds`.
    pub(super) fn of_time(seconds: f64) -> Self {
        const ROUND_STEPS: [f64; 13] = [
            10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0,
            86400.0,
        ];
        let least = seconds / 6.0;
        let step = match ROUND_STEPS.into_iter().find(|step| *step >= least) {
            Some(step) if least > 5.0 => step,
            None => (least / 86400.0).ceil() * 86400.0,
            Some(_) => round_step(least),
        };
        let mut ticks = Vec::new();
        let mut tick = 0.0;
        while tick <= seconds && ticks.len() < 10 {
            ticks.push((tick, units::time(Duration::from_secs_f64(tick))));
            tick = step * ticks.len() as f64;
        }
        Self { end: seconds, ticks }
    }

    /// The position of a value on the axis, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        (value / self.end).clamp(0.0, 1.0)
    }
}

/// The least number of 1, 2, 5, each times a power of ten, that is not below `least`.
fn round_step(least: f64) -> f64 {
    let least = least.max(1e-9);
    let power = 10f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|round| round * power >= least * 0.999_999);
    round.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks.iter().map(|(_, label)| label.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        let scale = Scale::of_numbers(437e6, "B/s");
        assert_eq!(labels(&scale), ["0", "200 MiB/s", "400 MiB/s", "600 MiB/s"]);
        assert!((scale.place(300.0 * 1024.0 * 1024.0) - 0.5).abs() < 1e-9);
        assert_eq!(labels(&Scale::of_numbers(0.0, "")), ["0", "0.5", "1"]);
        assert_eq!(labels(&Scale::of_whole(16)), ["0", "5", "10", "15"]);
        assert_eq!(labels(&Scale::of_whole(2)), ["0", "1", "2"]);
        assert_eq!(labels(&Scale::of_time(0.76)), ["0 s", "200 ms", "400 ms", "600 ms"]);
        let minutes = ["0 s", "1 min", "2 min", "3 min", "4 min", "5 min"];
        assert_eq!(labels(&Scale::of_time(310.0)), minutes);
        assert_eq!(labels(&Scale::of_time(7.0 * 86400.0)).len(), 4);
    }

    #[test]
    fn the_axis_covers_the_maximum_with_few_ticks() {
        for power in -6..12 {
            for factor in [1.0, 1.1, 2.5, 4.99, 9.99] {
                let most = factor * 10f64.powi(power);
                let scale = Scale::of_numbers(most, "");
                assert!(scale.end >= most * 0.999_999 && scale.end <= most * 2.0, "{most}");
                assert!((2..=5).contains(&scale.ticks.len()), "{most}");
                let ticks = Scale::of_time(most).ticks.len();
                assert!((2..=10).contains(&ticks), "{most}: {ticks}");
            }
        }
    }
}
