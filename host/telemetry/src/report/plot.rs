//! Draws a plot as inline SVG: stacked areas with steps, over time. Shapes are drawn in a box that
//! is stretched to the width of the page. Text is placed in percent of the width, and keeps its
//! size.

use std::fmt::Write;

use super::markup::Escaped;
use super::scale::Scale;

/// Height of the drawing in pixels, without labels.
const HEIGHT: f64 = 132.0;
/// Width of the drawing in its own units.
const WIDTH: f64 = 1000.0;
/// Least distance between the labels of two marks, as a share of the width.
const LABEL_DISTANCE: f64 = 0.08;

/// One area.
pub(super) struct Layer<'a> {
    /// Its class in the style sheet.
    pub(super) class: &'a str,
    /// Its name in the legend.
    pub(super) name: &'a str,
    /// Its height in each interval.
    pub(super) values: Vec<f64>,
}

/// A vertical line at one time, with a label.
pub(super) struct Mark {
    /// Seconds from the start.
    pub(super) at: f64,
    /// The name of the epoch or object that begins here.
    pub(super) label: String,
}

/// The content of a plot.
pub(super) struct Plot<'a> {
    /// Its title.
    pub(super) title: &'a str,
    /// The plot in words and numbers, for screen readers.
    pub(super) summary: String,
    /// The edges of the intervals, in seconds: one more than there are intervals.
    pub(super) edges: &'a [f64],
    /// The axis of the values.
    pub(super) scale: Scale,
    /// The layers from the bottom to the top.
    pub(super) layers: Vec<Layer<'a>>,
    /// The tooltip of each interval.
    pub(super) tips: Vec<String>,
    /// The borders of epochs.
    pub(super) marks: &'a [Mark],
}

impl Plot<'_> {
    /// Writes the plot as a `<figure>`.
    pub(super) fn write(&self, page: &mut String) {
        let time = Scale::of_time(self.edges.last().copied().unwrap_or_default());
        let _ = write!(page, "<figure><figcaption>{}", Escaped(self.title));
        if self.layers.len() > 1 {
            page.push_str("<ul class=\"legend\">");
            for layer in &self.layers {
                let _ = write!(page, "<li class=\"{}\">{}</li>", layer.class, Escaped(layer.name));
            }
            page.push_str("</ul>");
        }
        let _ = writeln!(
            page,
            "</figcaption>\n<div class=\"plot\">\
             <svg width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}: {}\">",
            Escaped(self.title),
            Escaped(&self.summary)
        );
        self.grid(page, &time);
        self.areas(page, &time);
        self.marks(page, &time);
        self.tips(page, &time);
        page.push_str("</svg></div></figure>\n");
    }

    fn grid(&self, page: &mut String, time: &Scale) {
        for (value, label) in &self.scale.ticks {
            let y = HEIGHT * (1.0 - self.scale.place(*value));
            let class = if *value == 0.0 { "axis" } else { "grid" };
            let _ = writeln!(
                page,
                "<line class=\"{class}\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"y\" x=\"-8\" y=\"{y:.1}\" dy=\"0.32em\">{}</text>",
                Escaped(label)
            );
        }
        for (seconds, label) in &time.ticks {
            let x = 100.0 * time.place(*seconds);
            // At the right edge a centered label would be cut off.
            let class = if x > 97.0 { "x last" } else { "x" };
            let _ = writeln!(
                page,
                "<line class=\"tick\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{HEIGHT}\" y2=\"{}\"/>\
                 <text class=\"{class}\" x=\"{x:.2}%\" y=\"{}\">{}</text>",
                HEIGHT + 4.0,
                HEIGHT + 17.0,
                Escaped(label)
            );
        }
    }

    /// Draws the layers from the top layer down, each to the bottom of the plot: so no gap shows
    /// between them.
    fn areas(&self, page: &mut String, time: &Scale) {
        let _ = write!(
            page,
            "<svg width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             preserveAspectRatio=\"none\">"
        );
        let count = self.edges.len().saturating_sub(1);
        let mut tops = vec![0.0; count];
        let mut paths = Vec::new();
        for layer in &self.layers {
            for (top, value) in tops.iter_mut().zip(&layer.values) {
                *top += value;
            }
            paths.push((layer.class, self.steps(&tops, time)));
        }
        for (class, steps) in paths.iter().rev() {
            let end = WIDTH * time.place(self.edges.last().copied().unwrap_or_default());
            let _ = write!(
                page,
                "<path class=\"area {class}\" d=\"M0 {HEIGHT}{steps}L{end:.1} {HEIGHT}Z\"/>"
            );
        }
        if let [(class, steps)] = paths.as_slice() {
            let line = steps.replacen('L', "M", 1);
            let _ = write!(page, "<path class=\"line {class}\" d=\"{line}\"/>");
        }
        page.push_str("</svg>\n");
    }

    fn steps(&self, tops: &[f64], time: &Scale) -> String {
        let mut path = String::new();
        for (edges, top) in self.edges.windows(2).zip(tops) {
            let [from, to] = [edges[0], edges[1]].map(|edge| WIDTH * time.place(edge));
            let y = HEIGHT * (1.0 - self.scale.place(*top));
            let _ = write!(path, "L{from:.1} {y:.1}H{to:.1}");
        }
        path
    }

    fn marks(&self, page: &mut String, time: &Scale) {
        let mut free_from = 0.0;
        for (at, mark) in self.marks.iter().enumerate() {
            let place = time.place(mark.at);
            let x = 100.0 * place;
            if at > 0 {
                let _ = write!(
                    page,
                    "<line class=\"mark\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"-6\" y2=\"{HEIGHT}\"/>"
                );
            }
            if place >= free_from && place < 1.0 - LABEL_DISTANCE / 2.0 {
                let _ = writeln!(
                    page,
                    "<text class=\"mark\" x=\"{x:.2}%\" dx=\"3\" y=\"-4\">{}</text>",
                    Escaped(&mark.label)
                );
                // The first label is longer: it also says `epoch`.
                free_from = place + if at == 0 { 2.0 * LABEL_DISTANCE } else { LABEL_DISTANCE };
            }
        }
    }

    fn tips(&self, page: &mut String, time: &Scale) {
        for (edges, tip) in self.edges.windows(2).zip(&self.tips) {
            let [from, to] = [edges[0], edges[1]].map(|edge| 100.0 * time.place(edge));
            let _ = write!(
                page,
                "<rect class=\"tip\" x=\"{from:.2}%\" width=\"{:.2}%\" y=\"0\" height=\"{HEIGHT}\">\
                 <title>{}</title></rect>",
                to - from,
                Escaped(tip)
            );
        }
        page.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_stacked_and_end_at_the_bottom() {
        let plot = Plot {
            title: "a < b",
            summary: "half".into(),
            edges: &[0.0, 5.0, 10.0],
            scale: Scale::of_parts(),
            layers: vec![
                Layer { class: "one", name: "One", values: vec![0.5, 0.25] },
                Layer { class: "two", name: "Two", values: vec![0.5, 0.5] },
            ],
            tips: vec!["first".into(), "second".into()],
            marks: &[
                Mark { at: 0.0, label: "epoch 0".into() },
                Mark { at: 5.0, label: "1".into() },
            ],
        };
        let mut page = String::new();
        plot.write(&mut page);
        let has = |part: &str| assert!(page.contains(part), "{part} in {page}");
        has("<figcaption>a &lt; b<ul class=\"legend\"><li class=\"one\">One</li>");
        has("aria-label=\"a &lt; b: half\"");
        has("<path class=\"area two\" d=\"M0 132L0.0 0.0H500.0L500.0 33.0H1000.0L1000.0 132Z\"/>\
             <path class=\"area one\" d=\"M0 132L0.0 66.0H500.0L500.0 99.0H1000.0L1000.0 132Z\"/>");
        has("x=\"50.00%\" width=\"50.00%\" y=\"0\" height=\"132\"><title>second</title>");
        has("<line class=\"mark\" x1=\"50.00%\"");
        assert!(!page.contains("class=\"line"), "only one that is alone has a line");
    }
}
