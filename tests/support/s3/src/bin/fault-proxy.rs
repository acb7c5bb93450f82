//! The fault proxy by hand and for benches. It runs until its standard input ends or it is killed, and
//! then says what it did.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use clap::Parser;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use pipemill_s3_test::proxy::{Kind, Plan, Proxy};

#[derive(Parser)]
#[command(about = "Stands before an S3 server and makes it slow or lets it fail")]
struct Arguments {
    /// The server, such as http://127.0.0.1:80
    server: String,
    /// Where to listen; port 0 is any that is free, and the first line of standard output names it
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// The same seed and the same requests give the same faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Of a fault, for each request; 0 to 1
    #[arg(long, default_value_t = 0.0)]
    probability: f64,
    /// What may happen; all by default. A name that is none lists those there are
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Milliseconds to the first byte of every answer
    #[arg(long, default_value_t = 0)]
    latency: u64,
    /// Bytes a second on each connection
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
