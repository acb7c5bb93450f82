//! Tests that faults depend only on the seed and the requests, not on the order of the requests.

use std::time::Duration;

use pipemill_s3_test::client::get;
use pipemill_s3_test::proxy::{Kind, Plan};

use crate::Fixture;

type Outcomes = Vec<(String, Option<Kind>, Option<u16>, u64)>;

/// The outcomes of 60 requests, each sent twice.
fn outcomes(fixture: &Fixture, seed: u64, threads: usize) -> Outcomes {
    let plan = Plan { hold: Duration::from_millis(1), ..Plan::random(seed, 0.5, &Kind::ALL) };
    let proxy = fixture.proxy(plan);
    let endpoint = proxy.endpoint();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let endpoint = &endpoint;
            scope.spawn(move || {
                for number in (0..60).filter(|number| number % threads == thread) {
                    let range = format!("bytes={}-{}", number * 1000, number * 1000 + 999);
                    for signature in ["one", "two"] {
                        let target = format!("/bucket/object?X-Amz-Date={signature}");
                        // The outcome is in the log.
                        let _ = get(endpoint, &target, Some(&range));
                    }
                }
            });
        }
    });
    assert!(proxy.wait_idle(Duration::from_millis(1)));
    let mut outcomes: Outcomes = proxy
        .log()
        .into_iter()
        .map(|entry| {
            let what = format!("{} {}", entry.request.range.unwrap(), entry.request.target);
            (what, entry.fault, entry.status, entry.body)
        })
        .collect();
    outcomes.sort();
    outcomes
}

#[test]
fn the_same_seed_gives_the_same_faults_at_any_concurrency() {
    let fixture = Fixture::new();
    let first = outcomes(&fixture, 7, 1);
    assert_eq!(first, outcomes(&fixture, 7, 1));
    assert_eq!(first, outcomes(&fixture, 7, 8));
    assert_ne!(first, outcomes(&fixture, 8, 1));
    let faults = first.iter().filter(|(_, fault, ..)| fault.is_some()).count();
    assert!((30..90).contains(&faults), "{faults} of 120 at one in two");
    let all = |kind| first.iter().any(|(_, fault, ..)| *fault == Some(kind));
    assert!(Kind::ALL.into_iter().all(all), "each of the kinds is among them: {first:?}");
    let differs = |pair: &[(String, Option<Kind>, Option<u16>, u64)]| pair[0].1 != pair[1].1;
    assert!(first.chunks(2).any(differs), "asking again is another chance");
}
