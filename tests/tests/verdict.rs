//! Which stage holds a channel back: nine staged runs, each of three stages made slow for each of three sources.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::place::Place;
use pipemill_tests::process::Process;
use pipemill_tests::{consumer, host, inputs, pipemill};

/// Where a channel's bytes come from, made slow or not.
#[derive(Clone, Copy, PartialEq, Debug)]
enum From {
    Fifo,
    File,
    S3,
}

/// What is slow.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Slow {
    Source,
    Decoder,
    Consumer,
}

/// Records that start with their numbers, as `consumer` wants them; for a slow decoder such that cost it much.
fn data(slow: Slow) -> (&'static str, Vec<u8>) {
    match slow {
        Slow::Decoder => {
            let row = |number: u32| {
                let numbers = "0.123456789012345678,".repeat(40);
                format!("{number:08},{numbers}1\n")
            };
            ("csv", (0..20_000).flat_map(|number| row(number).into_bytes()).collect())
        }
        Slow::Source | Slow::Consumer => {
            let payloads: Vec<_> =
                (0..40).map(|number| format!("{number:08}{}", "x".repeat(50_000))).collect();
            ("recordio", inputs::recordio(&payloads))
        }
    }
}

fn write_slowly(fifo: PathBuf, bytes: Vec<u8>, slow: Slow) {
    let pause = if slow == Slow::Source { 60 } else { 0 };
    std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(fifo).expect("it is there");
        for part in bytes.chunks(bytes.len() / 10) {
            std::thread::sleep(Duration::from_millis(pause));
            // Its reader may have ended.
            let _ = pipe.write_all(part);
        }
    });
}

fn verdict(from: From, slow: Slow) -> String {
    let place = Place::new();
    let (decoder, bytes) = data(slow);
    let mut keep = Vec::<Box<dyn std::any::Any>>::new();
    let source = match from {
        From::Fifo => {
            place.make_folder("in");
            write_slowly(place.fifo("in/train_0"), bytes, slow);
            format!("{{ fifo = {:?}, epochs = 1 }}", place.path("in"))
        }
        // A disk can't be made slow here, but what a path names can be a pipe.
        From::File if slow == Slow::Source => {
            let path = place.fifo("data");
            write_slowly(path.clone(), bytes, slow);
            format!("{{ file = {path:?} }}")
        }
        From::File => format!("{{ file = {:?} }}", place.write("data", &bytes)),
        From::S3 => {
            let server = S3s::start_open(&place.make_folder("s3"));
            server.put("bucket", "data", &bytes);
            let throttle = (slow == Slow::Source).then_some(3_000_000);
            let proxy = Proxy::start(&server.endpoint(), Plan { throttle, ..Plan::default() })
                .expect("a port");
            let source = format!(
                "{{ s3 = \"s3://bucket/data\", endpoint = {:?}, region = \"us-east-1\", anonymous = true }}",
                proxy.endpoint()
            );
            keep.push(Box::new((server, proxy)));
            source
        }
    };
    let options = match slow {
        Slow::Decoder => "options = { types = \"float32\" }\n",
        Slow::Source | Slow::Consumer => "",
    };
    // Small slots, so that what is read ahead of a slow consumer is little.
    let config = format!(
        "[[channel]]\nname = \"train\"\ndecoder = \"{decoder}\"\nsource = {source}\n{options}\
         [channel.ring]\nslots = 4\nslot = \"256KiB\"\n"
    );
    let mut command: Command = host::command(&pipemill!(), &place, &config);
    command.arg("--").arg(consumer!()).arg("train");
    if slow == Slow::Consumer {
        command.arg("100");
    } else {
        command.arg("0").arg("unchecked");
    }
    let ended = Process::start(&mut command).wait();
    let line = ended.stderr.lines().find(|line| line.contains("channel `train` ended"));
    line.unwrap_or_else(|| panic!("{from:?} {slow:?}: {ended:#?}")).to_owned()
}

#[test]
fn names_the_right_stage() {
    for from in [From::Fifo, From::File, From::S3] {
        for (slow, word) in [
            (Slow::Source, "for its source"),
            (Slow::Decoder, "for its decoder"),
            (Slow::Consumer, "for its consumers"),
        ] {
            let said = verdict(from, slow);
            assert!(said.contains(word), "{from:?} {slow:?}: {said}");
        }
    }
}
