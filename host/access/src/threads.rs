//! Does several jobs at once.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does each of the jobs, in this thread and in others: as many as there are jobs, if the system
/// allows that many. The results are in the order of the jobs.
pub(crate) fn in_threads<J: Send, R: Send>(jobs: Vec<J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let others = jobs.len().saturating_sub(1);
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || {
        let mut done = Vec::new();
        while let Some((number, job)) = next() {
            done.push((number, work(job)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let new = || thread::Builder::new().name("access".to_owned());
        // The jobs of a thread that can't be started are done by the others.
        let threads: Vec<_> =
            (0..others).map_while(|_| new().spawn_scoped(scope, some).ok()).collect();
        let mut done = some();
        for thread in threads {
            // A panic of a thread continues here.
            done.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn the_results_are_in_the_order_of_the_jobs() {
        for count in [0, 1, 2, 9] {
            let jobs: Vec<_> = (0..count).collect();
            let expected: Vec<_> = jobs.iter().map(|job| job * 2).collect();
            assert_eq!(in_threads(jobs, |job| job * 2), expected);
        }
    }

    /// Each job waits for all others.
    #[test]
    fn all_jobs_are_done_at_the_same_time() {
        let barrier = Barrier::new(3);
        let leaders = in_threads(vec![(); 3], |()| barrier.wait().is_leader());
        assert_eq!(leaders.iter().filter(|is_leader| **is_leader).count(), 1);
    }
}
