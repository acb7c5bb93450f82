//! A seed says it all: the same requests get the same faults, in whatever order they come.

use std::time::Duration;

use pipemill_s3_test::client::get;
use pipemill_s3_test::proxy::{Kind, Plan};

use crate::Place;

type Seen = Vec<(String, Option<Kind>, Option<u16>, u64)>;

/// What 60 requests, each asked twice, get.
fn seen(place: &Place, seed: u64, threads: usize) -> Seen {
    let plan = Plan { hold: Duration::from_millis(1), ..Plan::random(seed, 0.5, &Kind::ALL) };
    let proxy = place.proxy(plan);
    let endpoint = proxy.endpoint();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let endpoint = &endpoint;
            scope.spawn(move || {
                for number in (0..60).filter(|number| number % threads == thread) {
                    let range = format!("bytes={}-{}", number * 1000, number * 1000 + 999);
                    for signature in ["one", "two"] {
                        let target = format!("/bucket/object?X-Amz-Date={signature}");
                        // What comes of it is in the log.
                        let _ = get(endpoint, &target, Some(&range));
                    }
                }
            });
        }
    });
    assert!(proxy.wait_idle(Duration::from_millis(1)));
    let mut seen: Seen = proxy
        .log()
        .into_iter()
        .map(|entry| {
            let what = format!("{} {}", entry.request.range.unwrap(), entry.request.target);
            (what, entry.fault, entry.status, entry.body)
        })
        .collect();
    seen.sort();
    seen
}

#[test]
fn the_same_seed_gives_the_same_faults_at_any_concurrency() {
    let place = Place::new();
    let first = seen(&place, 7, 1);
    assert_eq!(first, seen(&place, 7, 1));
    assert_eq!(first, seen(&place, 7, 8));
    assert_ne!(first, seen(&place, 8, 1));
    let faults = first.iter().filter(|(_, fault, ..)| fault.is_some()).count();
    assert!((30..90).contains(&faults), "{faults} of 120 at one in two");
    let all = |kind| first.iter().any(|(_, fault, ..)| *fault == Some(kind));
    assert!(Kind::ALL.into_iter().all(all), "each of the kinds is among them: {first:?}");
    let differs = |pair: &[(String, Option<Kind>, Option<u16>, u64)]| pair[0].1 != pair[1].1;
    assert!(first.chunks(2).any(differs), "asking again is another chance");
}
