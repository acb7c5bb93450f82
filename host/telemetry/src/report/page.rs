//! Writes the whole page: one HTML file without scripts that loads nothing.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::markup::{Escaped, Lines, Prose};
use super::view::ChannelView;
use super::{channel, units};
use crate::Bottleneck;

/// A run that is over.
pub(super) struct Run<'a> {
    pub(super) began: SystemTime,
    pub(super) elapsed: Duration,
    /// The name of the machine.
    pub(super) host: String,
    /// The command and its arguments; empty if there was none.
    pub(super) command: String,
    /// The exit code.
    pub(super) code: u8,
    /// Why the exit code is not 0; empty if it is.
    pub(super) why: &'a str,
    /// The configuration, as TOML.
    pub(super) config: Option<&'a str>,
    pub(super) channels: &'a [ChannelView<'a>],
}

impl Run<'_> {
    /// The page as HTML.
    pub(super) fn page(&self) -> String {
        let mut page = String::new();
        self.head(&mut page);
        self.summary(&mut page);
        if self.channels.len() > 1 {
            self.channels_table(&mut page);
        }
        for (number, view) in self.channels.iter().enumerate() {
            channel::write(&mut page, number, view);
        }
        if let Some(config) = self.config {
            let _ = writeln!(
                page,
                "<section><h2>Configuration</h2>\n\
                 <details><summary>All of it, with every default</summary>\n\
                 <pre>{}</pre></details></section>",
                Lines(config)
            );
        }
        self.foot(&mut page);
        page
    }

    fn head(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>pipemill run on {}: {}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>",
            Escaped(&self.host),
            Escaped(self.outcome()),
            include_str!("style.css")
        );
    }

    fn summary(&self, page: &mut String) {
        let class = match self.code {
            0 if self.never_read().next().is_some() => "never-read",
            0 => "ended",
            _ => "failed",
        };
        let _ = writeln!(
            page,
            "<header>\n<p class=\"kind\">pipemill run</p>\n<h1 class=\"{class}\">{}</h1>",
            Escaped(self.outcome())
        );
        if !self.why.is_empty() {
            let lines: Vec<_> = self.why.lines().map(|line| Prose(line).to_string()).collect();
            let _ = writeln!(page, "<p class=\"why\">{}</p>", lines.join("\n"));
        }
        let began = self.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut figures = vec![
            ("Exit code", self.code.to_string()),
            ("Began", format!("<time>{}</time>", units::date(began.as_secs()))),
            ("Took", units::time(self.elapsed)),
            ("Host", Escaped(&self.host).to_string()),
        ];
        if !self.command.is_empty() {
            figures.push(("Command", format!("<code>{}</code>", Escaped(&self.command))));
        }
        figures.push(("Version", concat!("pipemill ", env!("CARGO_PKG_VERSION")).to_owned()));
        page.push_str("<dl class=\"facts\">");
        for (name, value) in figures {
            let _ = write!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
        page.push_str("</dl>\n</header>\n");
    }

    fn outcome(&self) -> String {
        let signal = self.code.checked_sub(128).map(i32::from).map(Signal::try_from);
        match (self.code, signal) {
            (0, _) => {
                let names: Vec<_> = self.never_read().map(|view| view.now.name).collect();
                match names.as_slice() {
                    [] => "Ended well".to_owned(),
                    [name] => format!("Ended, but {name} was never read"),
                    names => format!("Ended, but {} channels were never read", names.len()),
                }
            }
            (_, Some(Ok(signal))) => format!("Ended by {signal}"),
            _ => "Failed".to_owned(),
        }
    }

    fn never_read(&self) -> impl Iterator<Item = &ChannelView<'_>> {
        self.channels.iter().filter(|view| view.now.is_unread())
    }

    fn channels_table(&self, page: &mut String) {
        page.push_str(
            "<section><h2>Channels</h2>\n<div class=\"wide\" role=\"region\" \
             aria-label=\"Channels\" tabindex=\"0\"><table class=\"overview\">\n<thead><tr>\
             <th scope=\"col\">Channel</th><th scope=\"col\">State</th>\
             <th scope=\"col\">Records</th><th scope=\"col\">Bytes</th>\
             <th scope=\"col\">Throughput</th><th scope=\"col\">Waited for</th>\
             <th scope=\"col\">Where the time went</th></tr></thead>\n<tbody>\n",
        );
        for (number, view) in self.channels.iter().enumerate() {
            let totals = &view.now.totals;
            let seconds = totals.time().as_secs_f64().max(1e-9);
            let word = view.end();
            let _ = write!(
                page,
                "<tr><th scope=\"row\"><a href=\"#channel-{number}\">{}</a></th>\
                 <td><span class=\"state {}\">{word}</span></td><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{}</td><td>",
                Escaped(view.now.name),
                word.replace(' ', "-"),
                units::counted(totals.records),
                units::scaled(totals.bytes as f64, "B"),
                units::scaled(totals.bytes as f64 / seconds, "B/s"),
                Bottleneck::of(totals).map_or("–", |bottleneck| bottleneck.stage.word()),
            );
            channel::write_shares(page, totals);
            page.push_str("</td></tr>\n");
        }
        page.push_str("</tbody></table></div></section>\n");
    }

    fn foot(&self, page: &mut String) {
        page.push_str(
            "<footer><p>A channel is one thread, and always at one of three stages. \
             <b>Source</b>: it reads, or waits for bytes. <b>Decoder</b>: it decodes. \
             <b>Consumer</b>: it hands batches over, or waits for memory \
             that consumers hold. The longest one is the bottleneck.</p>\n\
             <p>Bytes are those of the input, inflated; KiB, MiB and GiB are 1024, 1024² and 1024³ \
             of them.</p></footer>\n\
             </main>\n</body>\n</html>\n",
        );
    }
}
