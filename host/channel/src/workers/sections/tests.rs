use super::super::ahead_limiter::AheadLimit;
use super::end::EndOfSection;
use super::*;
use crate::pump::section_end::{DecodedTo, SectionEnd};

struct Zeros;

impl Input for Zeros {
    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        buf.fill(0);
        Ok(ReadOutcome::Bytes(buf.len()))
    }

    fn at(&self, _: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        Some(Ok(Box::new(Zeros)))
    }
}

/// A limiter with room for no bytes ahead.
fn limiter() -> Arc<AheadLimiter> {
    Arc::new(AheadLimiter::new(AheadLimit::default()))
}

#[test]
fn bytes_that_were_used_are_forgotten_even_if_decoding_can_begin_nowhere_inside() {
    const MOST: usize = 3 * PIECE_BYTES;
    let sections = Sections::new(limiter(), 0, 0, MOST, None);
    let (mut input, mut buf) = (sections.first().input(), vec![0; PIECE_BYTES]);
    for _ in 0..100 {
        if let Room::Read(most) = sections.room(u64::MAX, false) {
            let read = sections.read_from(&mut Zeros, most);
            assert!(matches!(read, Ok((_, false))));
        }
        let read = input.read(&mut buf, Some(Duration::ZERO));
        assert_eq!(read, Ok(ReadOutcome::Bytes(PIECE_BYTES)));
        assert!(sections.state().kept() <= MOST as u64);
    }
    assert!(matches!(sections.room(u64::MAX, true), Room::HandOver));
}

/// Otherwise the objects after it would wait until it is at its end.
#[test]
fn an_object_that_is_not_known_to_be_divisible_does_not_hold_up_the_others() {
    const STEP: u64 = 100;
    let limiter = limiter();
    let whole: Option<Box<dyn Input>> = Some(Box::new(Zeros));
    let sections = Sections::new(limiter.clone(), 0, 0, 0, whole);
    let (mut input, mut buf) = (sections.first().input(), vec![0; PIECE_BYTES]);
    let mut read = 0;
    while matches!(sections.begin_after(1, STEP, u64::MAX), NextSection::None) {
        assert!(read < STEP + MAX_HEADER, "its decoder was shown {read} bytes");
        let Ok(ReadOutcome::Bytes(len)) = input.read(&mut buf, None) else { panic!("no bytes") };
        read += len as u64;
    }
    assert!(read >= MAX_HEADER, "a header is not as long as {read} bytes");
    assert!(limiter.sections_are_wasted(), "nor in later objects");
    sections.first().end().can_restart(0);
    assert!(matches!(sections.begin_after(1, STEP, u64::MAX), NextSection::Done), "too late");
}

/// Otherwise both the section that has found it and the one after it would have its records.
#[test]
fn what_is_found_beyond_the_next_section_does_not_count() {
    let sections = Sections::new(limiter(), 0, 0, 10 * PIECE_BYTES, None);
    sections.first().end().can_restart(0);
    let begin = |number| {
        assert!(matches!(sections.read_from(&mut Zeros, 100), Ok((_, false))));
        sections.begin(number, 5).expect("a section")
    };
    let (second, third) = (begin(1), begin(2));
    assert_eq!((second.search(), third.search()), (Some(100), Some(200)));
    second.found(Some(201));
    assert_eq!(sections.first().end().limit(), 200);
    third.found(Some(230));
    assert_eq!(sections.first().end().limit(), 230);
    let mut end = sections.first().end();
    assert!(matches!(end.reach(&decoded(230, 0)), Ok(true)));
    assert_eq!(end.next, Some(2));
}

/// Begins a section and lets its worker find a record where it begins. `None`: no more are begun.
fn begun(sections: &Arc<Sections>, number: u64) -> Option<SectionPart> {
    assert!(matches!(sections.read_from(&mut Zeros, 100), Ok((_, false))));
    let part = sections.begin(number, 5)?;
    part.found(part.search());
    Some(part)
}

/// A decoder that never comes to the very start of the next section would decode all twice.
#[test]
fn no_more_sections_are_begun_where_they_are_decoded_in_vain() {
    let limiter = limiter();
    let sections = Sections::new(limiter.clone(), 0, 0, 10 * PIECE_BYTES, None);
    let mut end = sections.first().end();
    end.can_restart(0);
    for number in 1..=2 {
        assert!(!limiter.sections_are_wasted());
        assert!(begun(&sections, number).is_some(), "{number}");
        end.go_beyond().expect("it is wanted");
    }
    assert!(begun(&sections, 3).is_none());
    assert!(limiter.sections_are_wasted(), "nor in later objects");
}

#[test]
fn sections_go_on_if_some_of_the_channel_were_of_use() {
    let limiter = limiter();
    let sections = Sections::new(limiter.clone(), 0, 0, 10 * PIECE_BYTES, None);
    sections.first().end().can_restart(0);
    let second = begun(&sections, 1).expect("a section");
    assert!(matches!(sections.first().end().reach(&decoded(100, 0)), Ok(true)));
    for number in 2..10 {
        assert!(begun(&sections, number).is_some(), "{number}");
        second.end().go_beyond().expect("it is wanted");
    }
    assert!(begun(&sections, 10).is_none(), "eight in a row were in vain");
    assert!(!limiter.sections_are_wasted());
}

/// Its worker notices only at its next step that the section was dropped. Otherwise the records of
/// the section after it would be lost, which the first one has ended at.
#[test]
fn a_section_that_was_dropped_drops_no_other() {
    let limiter = limiter();
    let sections = Sections::new(limiter.clone(), 0, 0, 10 * PIECE_BYTES, None);
    let mut end = sections.first().end();
    end.can_restart(0);
    let second = begun(&sections, 1).expect("a section");
    assert!(begun(&sections, 2).is_some());
    assert!(matches!(end.reach(&decoded(101, 0)), Ok(false)), "it used a byte of the second one");
    assert!(matches!(end.reach(&decoded(200, 0)), Ok(true)));
    assert_eq!(end.next, Some(2));
    assert!(matches!(second.end().go_beyond(), Err(StopReason::Stopped)));
    assert!(!limiter.is_unwanted(2, 0), "the third one");
}

/// A decoder came to `offset` and was shown the bytes up to `limit`; it could begin again there.
fn decoded(offset: u64, wants: u64) -> DecodedTo {
    DecodedTo { offset, restart: Some(0), wants }
}

/// Two sections of an object of which 100,000 bytes were read, the second one from byte 100 on.
fn two_sections() -> (Arc<Sections>, EndOfSection) {
    let sections = Sections::new(limiter(), 0, 0, 10 * PIECE_BYTES, None);
    let mut end = sections.first().end();
    end.can_restart(0);
    assert!(begun(&sections, 1).is_some());
    assert!(matches!(sections.read_from(&mut Zeros, 99_900), Ok((_, false))));
    (sections, end)
}

/// A decoder of tar archives knows that a sample is whole when it sees the next one's header.
#[test]
fn a_decoder_that_has_to_look_beyond_the_end_of_its_section_ends_there() {
    let (sections, mut end) = two_sections();
    let mut input = sections.first().input();
    let mut buf = [0; 1_000];
    assert_eq!(input.read(&mut buf, None), Ok(ReadOutcome::Bytes(100)));
    assert!(matches!(end.reach(&decoded(40, 150)), Ok(false)));
    assert_eq!(end.limit(), 150);
    assert_eq!(input.read(&mut buf, None), Ok(ReadOutcome::Bytes(50)));
    assert!(matches!(end.reach(&decoded(40, 0)), Ok(false)), "it does not say what it wants");
    assert_eq!(end.limit(), 662);
    assert!(matches!(end.reach(&decoded(100, 0)), Ok(true)));
    assert_eq!(end.next, Some(1));
}

#[test]
fn a_decoder_that_uses_bytes_beyond_the_end_of_its_section_goes_on() {
    let (_sections, mut end) = two_sections();
    assert!(matches!(end.reach(&decoded(40, 150)), Ok(false)));
    assert!(matches!(end.reach(&decoded(101, 0)), Ok(false)));
    assert_eq!((end.limit(), end.next), (u64::MAX, None));
}

#[test]
fn a_decoder_is_not_shown_much_beyond_the_end_of_its_section() {
    for wants in [0, 100 + (64 << 10) + 1] {
        let (_sections, mut end) = two_sections();
        let mut last = 0;
        while end.limit() != u64::MAX {
            last = end.limit();
            assert!(matches!(end.reach(&decoded(40, wants)), Ok(false)));
        }
        assert!(last <= 100 + (64 << 10), "{last}");
    }
}

#[test]
fn bytes_that_a_decoder_has_seen_beyond_its_section_stay_for_the_next_one() {
    let sections = Sections::new(limiter(), 0, 0, 10 * PIECE_BYTES, None);
    let mut end = sections.first().end();
    end.can_restart(0);
    let second = begun(&sections, 1).expect("a section");
    assert!(matches!(end.reach(&decoded(40, 200)), Ok(false)));
    for part in [sections.first(), second] {
        assert!(matches!(sections.read_from(&mut Zeros, 100), Ok((_, false))));
        let (mut input, mut buf, mut read) = (part.input(), [0; 100], 0);
        while read < 100 {
            match input.read(&mut buf[read..], Some(Duration::ZERO)) {
                Ok(ReadOutcome::Bytes(len)) => read += len,
                other => panic!("{other:?}"),
            }
        }
    }
}
