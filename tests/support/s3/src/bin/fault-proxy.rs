//! The fault proxy as a program, for use by hand. It runs until its standard input ends, and then
//! prints what it did.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use clap::Parser;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use pipemill_s3_test::proxy::{Kind, Plan, Proxy};

#[derive(Parser)]
#[command(about = "A proxy for an S3 server that delays answers and injects faults")]
struct Arguments {
    /// The server, such as http://127.0.0.1:80
    server: String,
    /// The address to listen on; port 0 takes a free port. The first line of standard output names
    /// it
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// The same seed and the same requests give the same faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The probability of a fault for each request, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    probability: f64,
    /// The kinds of faults to choose from, by default all. An unknown name prints the list
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Milliseconds until the first byte of every answer
    #[arg(long, default_value_t = 0)]
    latency: u64,
    /// Bytes per second on each connection
    #[arg(long)]
    throttle: Option<u64>,
    /// Milliseconds that stalls and slow starts last
    #[arg(long, default_value_t = 500)]
    hold: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    set_pdeathsig(Signal::SIGTERM)?;
    let all = arguments.kinds.is_empty();
    let plan = Plan {
        seed: arguments.seed,
        probability: arguments.probability,
        kinds: if all { Kind::ALL.to_vec() } else { arguments.kinds },
        latency: Duration::from_millis(arguments.latency),
        throttle: arguments.throttle,
        hold: Duration::from_millis(arguments.hold),
        ..Plan::default()
    };
    let proxy = Proxy::start_at(&arguments.server, plan, &arguments.listen)?;
    println!("listening on {}", proxy.endpoint());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("requests {}", proxy.requests());
    println!("connections {}", proxy.connections());
    println!("most in flight {}", proxy.most_in_flight());
    for (kind, count) in proxy.faults() {
        println!("{kind} {count}");
    }
    Ok(())
}
