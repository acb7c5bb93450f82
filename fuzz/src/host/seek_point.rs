//! Seek points from an index: hostile ones are an error or are read as they would be written, and
//! inflating from them gives an error or bytes that do not depend on the pieces.

use flate2::Crc;
use pipemill_source::{Compression, SeekPoint};

use super::inflate::{Pieces, read};

/// The first two bytes are the length of the point, the next three the pieces; the point follows,
/// without its checksum, and then the compressed bytes from it on.
pub(crate) fn seek_point(bytes: &[u8]) {
    let Some(([low, high, pieces @ ..], rest)) = bytes.split_first_chunk::<5>() else { return };
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    let Some((point, object)) = rest.split_at_checked(length) else { return };
    let mut sum = Crc::new();
    sum.update(point);
    let point = [point, &sum.sum().to_le_bytes()].concat();
    let found = match SeekPoint::from_bytes(&point) {
        Ok(found) => found,
        Err(why) => {
            assert!(!why.is_empty());
            return;
        }
    };
    assert!(found.to_bytes() == point, "another point");
    let from = |pieces| {
        let rest = Box::new(Pieces::of(object, pieces));
        read(Compression::Auto.inflate_from("object", rest, Some(&found)))
    };
    let (whole, split) = (from([255; 3]), from(*pieces));
    let text = |read: &Option<(Vec<u8>, Option<_>)>| format!("{read:?}");
    assert!(text(&whole) == text(&split), "in pieces of {pieces:?}");
}
