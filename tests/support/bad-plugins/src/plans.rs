//! Misdeeds with plans of objects.

use pipemill_plugin::bindings::exports::pipemill::decoder0_3_0::plan::{
    Companion, Next, Part, Piece, Range,
};

fn range(offset: u64, length: u64) -> Range {
    Range { of: 0, offset, length }
}

fn part(context: Vec<u8>, ranges: Vec<Range>) -> Next {
    Next::Parts(vec![Part { context, ranges }])
}

/// The next step of the plan of an object of `size` bytes. `None`: it has no plan.
pub fn step(misdeed: &str, size: u64, seen: &[Piece]) -> Result<Option<Next>, String> {
    let next = match misdeed {
        "plan-panic" => panic!("I lost the plan"),
        "plan-spin" => loop {
            std::hint::black_box(());
        },
        "plan-refuse" => return Err("no\x1b[31m plan for you".to_owned()),
        "plan-endless" => Next::Read(vec![range(0, 1)]),
        "plan-nothing" => Next::Read(Vec::new()),
        "plan-many-ranges" => Next::Read(vec![range(0, 1); 65]),
        "plan-outside" => Next::Read(vec![range(size - 1, 2)]),
        "plan-overflow" => Next::Read(vec![range(u64::MAX, 2)]),
        "plan-part-outside" => part(vec![1], vec![range(size + 1, 0)]),
        "plan-large" => part(vec![1; 9 << 20], Vec::new()),
        "plan-many-parts" => {
            let part = || Part { context: Vec::new(), ranges: Vec::new() };
            Next::Parts((0..140_000).map(|_| part()).collect())
        }
        "plan-huge" => part(vec![1; 20 << 20], Vec::new()),
        "plan-much" if seen.len() < 2_000 => Next::Read(vec![range(0, size); 64]),
        // Bytes twice, backwards, and some of its own.
        "plan-odd" => part(b"<".to_vec(), vec![range(8, 8), range(0, 8), range(8, 0), range(2, 4)]),
        "plan-all" if seen.is_empty() => Next::Read(vec![range(0, size)]),
        "plan-all" | "plan-empty" => Next::Parts(Vec::new()),
        _ => return Ok(None),
    };
    Ok(Some(next))
}
