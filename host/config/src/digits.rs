//! A regular expression of the whole numbers in a range. A JSON Schema has no other way to say
//! which numbers are valid before a unit.

/// A regular expression of the whole numbers from `min` to `max`, without leading zeros.
pub(super) fn pattern(min: u64, max: u64) -> String {
    let mut blocks = Vec::new();
    let mut from = min;
    while from <= max {
        let free = free_digits(from, max);
        let step = 10_u64.pow(free);
        let digit = from / step % 10;
        let last = (digit + (max - from + 1) / step - 1).min(9);
        let before = match from / step / 10 {
            0 => String::new(),
            before => before.to_string(),
        };
        let digits = if digit == last { digit.to_string() } else { format!("[{digit}-{last}]") };
        blocks.push(format!("{before}{digits}{}", "[0-9]".repeat(free as usize)));
        from += (last - digit + 1) * step;
    }
    blocks.join("|")
}

/// Number of trailing digits of `from` that are free: all of these numbers have the length of
/// `from`, and none is larger than `max`.
fn free_digits(from: u64, max: u64) -> u32 {
    let is_free = |free: &u32| {
        let block = 10_u64.pow(*free);
        from >= block && from.is_multiple_of(block) && from + block - 1 <= max
    };
    (1..19).take_while(is_free).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_range_is_split_where_a_digit_changes() {
        assert_eq!(pattern(0, 9), "[0-9]");
        assert_eq!(
            pattern(4, 4_096),
            "[4-9]|[1-9][0-9]|[1-9][0-9][0-9]|[1-3][0-9][0-9][0-9]|40[0-8][0-9]|409[0-6]"
        );
        assert_eq!(pattern(64, 1_024), "6[4-9]|[7-9][0-9]|[1-9][0-9][0-9]|10[0-1][0-9]|102[0-4]");
        assert_eq!(pattern(0, 0), "0");
    }
}
