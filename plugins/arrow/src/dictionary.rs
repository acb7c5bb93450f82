//! Dictionaries: the values to which columns refer. A batch replaces one, or adds values to it.

use crate::array::Values;
use crate::convert::Convert;

/// What a value counts besides its bytes.
const VALUE: usize = 8;

/// The values of a dictionary, as those of a field.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    nulls: Vec<bool>,
}

impl Dictionary {
    /// Adds values. Together they take at most `most` bytes.
    pub(crate) fn add(
        &mut self,
        values: &Values,
        convert: Convert,
        most: usize,
    ) -> Result<(), String> {
        for row in 0..values.rows {
            let is_null = values.valid.is_null(row);
            if !is_null {
                let found = |why| format!("value {row}: {why}");
                convert.push(values.get(row).map_err(found)?, &mut self.bytes).map_err(|what| {
                    format!("value {row}: expected a value of its type, found {what}")
                })?;
            }
            self.nulls.push(is_null);
            self.ends.push(self.bytes.len() as u32);
            if self.bytes.len() + self.ends.len() * VALUE > most {
                return Err(format!("it takes more than {most} bytes; raise max_record"));
            }
        }
        Ok(())
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A value; the inner `None` if it is null.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Option<&[u8]>> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Some(if self.nulls[index] { None } else { self.bytes.get(start..end) })
    }
}
