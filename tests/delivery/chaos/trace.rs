//! The host's record of a channel's grants: the lines of `pipemill run --trace`, in the order of
//! the ring's lock.

use std::collections::BTreeMap;

use serde_json::Value;

/// The way in which a grant ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantEnd {
    /// The consumer RELEASEd it.
    Released,
    /// The consumer hung up while it held it.
    Returned,
    /// The trace is over, and it was held until then.
    Held,
}

/// One grant.
#[derive(Clone, Debug)]
pub struct Grant {
    pub batch: u64,
    pub pid: i32,
    pub acked: bool,
    pub end: GrantEnd,
}

/// The grants of one channel.
#[derive(Debug, Default)]
pub struct Grants {
    /// By number, which is the order in which they were made.
    pub grants: BTreeMap<u64, Grant>,
    /// Events are missing: the machine was too slow to write them all.
    pub has_gap: bool,
    /// What must not happen: a batch that is granted while a consumer holds it, or after its ACK.
    pub faults: Vec<String>,
    /// The last grant of each batch in mode `share`.
    last: BTreeMap<u64, u64>,
    /// Each batch is granted to each consumer.
    is_broadcast: bool,
    /// The last grant of each batch to each process.
    of: BTreeMap<(u64, i32), u64>,
}

/// Reads a trace by channel, of which one is in mode `broadcast`. Its last line may be cut, where the host was killed.
pub fn read(text: &str, broadcast: &str) -> BTreeMap<String, Grants> {
    let mut channels = BTreeMap::<String, Grants>::new();
    channels.entry(broadcast.to_owned()).or_default().is_broadcast = true;
    let mut rows = BTreeMap::<u64, String>::new();
    for line in text.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line.trim_end_matches(',')) else { continue };
        let name = event["name"].as_str().unwrap_or_default();
        if name == "events of slots were dropped" {
            let channel = event["tid"].as_u64().and_then(|row| rows.get(&row));
            let channel = channel.expect("the row of a channel has a name").clone();
            channels.entry(channel).or_default().has_gap = true;
        } else if name == "thread_name"
            && let (Some(row), Some(channel)) =
                (event["tid"].as_u64(), event["args"]["name"].as_str())
        {
            rows.insert(row, channel.to_owned());
        } else if event["cat"] == "grant"
            && let Some((channel, _)) = name.split_once(": ")
        {
            channels.entry(channel.to_owned()).or_default().add(&event);
        }
    }
    channels
}

impl Grants {
    fn add(&mut self, event: &Value) {
        let args = &event["args"];
        let grant = args["grant"].as_u64().expect("each event of a grant has its number");
        if event["ph"] == "b" {
            let batch = args["batch"].as_u64().expect("a grant is of a batch");
            let pid = args["pid"].as_i64().expect("a grant has a consumer") as i32;
            self.begin(grant, Grant { batch, pid, acked: false, end: GrantEnd::Held });
            return;
        }
        // After a gap, the beginning of a grant may be missing.
        let Some(known) = self.grants.get_mut(&grant) else { return };
        match args["what"].as_str() {
            Some("ACK") if known.acked => {
                self.faults.push(format!("grant {grant} was ACKed again"))
            }
            Some("ACK") => known.acked = true,
            Some("RELEASE") => known.end = GrantEnd::Released,
            Some("the consumer is gone") => known.end = GrantEnd::Returned,
            _ => {}
        }
    }

    fn begin(&mut self, number: u64, grant: Grant) {
        let before = if self.is_broadcast {
            self.of.get(&(grant.batch, grant.pid)).copied()
        } else {
            self.last.insert(grant.batch, number)
        };
        if let Some(before) = before {
            let last = &self.grants[&before];
            if last.acked || last.end != GrantEnd::Returned {
                self.faults.push(format!(
                    "batch {} was granted as {number} to process {}, after grant {before}: {last:?}",
                    grant.batch, grant.pid
                ));
            }
        }
        self.of.insert((grant.batch, grant.pid), number);
        self.grants.insert(number, grant);
    }

    /// The last grant of a batch to a process.
    pub fn of(&self, batch: u64, pid: i32) -> Option<&Grant> {
        self.grants.get(self.of.get(&(batch, pid))?)
    }
}
