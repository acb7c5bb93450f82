//! Measures the cost of a batch: how long `grant` takes, and how long from its call until the
//! consumer has the batch. `grant_cost [RECORDS_PER_BATCH]`

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pipemill_ring::host::{BatchInfo, Column, Ring, RingConfig, Server, ServerConfig};
use pipemill_ring::protocol::{Field, Mode, Scalar};
use pipemill_ring::reader::{Event, Reader};

const BATCHES: usize = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records: u32 = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let ring = Ring::new(RingConfig {
        channel: "train".into(),
        slots: 8,
        slot_bytes: 1 << 20,
        dedicated: RingConfig::FEW_DEDICATED,
        credits: 2,
        mode: Mode::Share,
        consumers: 1,
    })?;
    let field = Field::new("data", Scalar::Bytes, vec![]);
    ring.set_schema(vec![field])?;
    let socket = folder.path().join("folder/socket");
    let _server = Server::start(&socket, &ServerConfig::default(), vec![ring.clone()], None)?;
    let mut reader = Reader::connect(&socket, "train", None)?;
    let (arrived, arrivals) = channel();
    let consumer = std::thread::spawn(move || {
        while let Ok(Event::Batch(batch)) = reader.next() {
            let _ = arrived.send((Instant::now(), batch.records()));
        }
    });
    let columns = [Column::of_lists((0..records).collect(), vec![1; records as usize])];
    let info = BatchInfo { payload_bytes: records as usize, ..BatchInfo::default() };
    let (mut granting, mut arriving) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        let slot = ring.acquire()?;
        let start = Instant::now();
        slot.grant(&info, &columns)?;
        granting.push(start.elapsed());
        let (arrival, _) = arrivals.recv()?;
        arriving.push(arrival - start);
    }
    ring.end_stream();
    consumer.join().map_err(|_| "the consumer panicked")?;
    report("grant", granting);
    report("grant to arrival", arriving);
    Ok(())
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: f64| times[(times.len() as f64 * part) as usize];
    println!("{what}: median {:?}, 90 % {:?}, 99 % {:?}", at(0.5), at(0.9), at(0.99));
}
