//! Misdeeds with plans of objects.

use pipemill_plugin::bindings::exports::pipemill::decoder0_3_0::plan::{
    Companion, Next, Part, Piece, Range,
};

fn range(offset: u64, length: u64) -> Range {
    Range { of: 0, offset, length }
}

fn part(context: Vec<u8>, ranges: Vec<Range>) -> Next {
    Next::Parts(vec![Part { context, ranges, records: None }])
}

/// Bytes of a companion.
fn beside(of: u32, offset: u64, length: u64) -> Range {
    Range { of, offset, length }
}

/// The companions of each object.
pub fn companions(misdeed: &str) -> Result<Vec<Companion>, String> {
    let rule = |object: &str, companion: &str| Companion {
        object: object.to_owned(),
        companion: companion.to_owned(),
    };
    Ok(match misdeed {
        "companions-panic" => panic!("I lost my companions"),
        "companions-spin" => loop {
            std::hint::black_box(());
        },
        "companions-refuse" => return Err("no\x1b[31m companions for you".to_owned()),
        "companions-above" => vec![rule(".bin", "/../../etc/passwd")],
        "companions-dots" => vec![rule("x", "..")],
        "companions-itself" => vec![rule(".bin", ".bin")],
        "companions-many" => (0..5).map(|n| rule(".bin", &format!(".{n}"))).collect(),
        "companions-long" => vec![rule(".bin", &"x".repeat(1 << 20))],
        "companions-huge" => (0..400_000).map(|_| rule(".bin", ".idx and more text")).collect(),
        misdeed if misdeed.starts_with("beside-") => vec![rule(".bin", ".idx")],
        _ => Vec::new(),
    })
}

/// Two parts of five and of four records, with these counts.
fn counted(first: Option<u64>, second: Option<u64>) -> Next {
    Next::Parts(vec![
        Part { context: b"<".to_vec(), ranges: vec![range(0, 4)], records: first },
        Part { context: Vec::new(), ranges: vec![range(4, 4)], records: second },
    ])
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
            let part = || Part { context: Vec::new(), ranges: Vec::new(), records: None };
            Next::Parts((0..140_000).map(|_| part()).collect())
        }
        "plan-huge" => part(vec![1; 20 << 20], Vec::new()),
        "plan-much" if seen.len() < 2_000 => Next::Read(vec![range(0, size); 64]),
        // Bytes twice, backwards, and some of its own.
        "plan-odd" => part(b"<".to_vec(), vec![range(8, 8), range(0, 8), range(8, 0), range(2, 4)]),
        "plan-count" => counted(Some(5), Some(4)),
        "plan-count-more" => counted(Some(6), Some(4)),
        "plan-count-fewer" => counted(None, Some(3)),
        "plan-count-last" => counted(Some(5), Some(5)),
        "plan-count-of-nothing" => {
            Next::Parts(vec![Part { context: Vec::new(), ranges: Vec::new(), records: Some(2) }])
        }
        "beside-outside" => Next::Read(vec![beside(1, 3, 4)]),
        "beside-overflow" => Next::Read(vec![beside(1, u64::MAX, 2)]),
        "beside-unknown" => Next::Read(vec![beside(2, 0, 0)]),
        "beside-part-outside" => part(vec![1], vec![beside(1, 7, 0)]),
        "beside-part-unknown" => part(vec![1], vec![beside(u32::MAX, 0, 1)]),
        "beside-whole" => Next::Whole,
        // Bytes of both, mixed.
        "beside-odd" if seen.is_empty() => Next::Read(vec![beside(1, 1, 4), range(2, 2)]),
        "beside-odd" => {
            let shown = seen.iter().flat_map(|piece| piece.bytes.clone()).collect();
            part(shown, vec![range(0, 2), beside(1, 0, 3), range(8, 1), beside(1, 3, 3)])
        }
        "plan-all" if seen.is_empty() => Next::Read(vec![range(0, size)]),
        "plan-all" | "plan-empty" => Next::Parts(Vec::new()),
        _ => return Ok(None),
    };
    Ok(Some(next))
}
