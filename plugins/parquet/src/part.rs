//! A part of a plan: a head, a footer or a text, and the bytes of the columns.

/// The first bytes of each part.
const MARK: [u8; 8] = *b"\0parquet";
/// Bytes of a part's head.
pub(crate) const HEAD: usize = MARK.len() + 1 + 8 + 4 + 8;

/// What a part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A footer with at most one group, whose columns follow.
    Group,
    /// The reason why the file can't be decoded.
    Damaged,
    /// The reason why the file is refused.
    Refused,
}

/// The head of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartHead {
    pub(crate) kind: Kind,
    /// The number of the group in the file.
    pub(crate) group: u64,
    /// Bytes of the footer or text.
    pub(crate) text: u32,
    /// Bytes of the columns.
    pub(crate) columns: u64,
}

impl PartHead {
    /// The head with the footer or text after it. The columns follow.
    pub(crate) fn with(kind: Kind, group: u64, text: &[u8], columns: u64) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.push(kind as u8);
        bytes.extend(group.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(columns.to_le_bytes());
        bytes.extend(text);
        bytes
    }

    /// Reads a head. `None` if there is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.strip_prefix(&MARK)?.split_first()?;
        let kind = [Kind::Group, Kind::Damaged, Kind::Refused]
            .into_iter()
            .find(|one| *one as u8 == *kind)?;
        let (group, rest) = rest.split_first_chunk()?;
        let (text, rest) = rest.split_first_chunk()?;
        let (columns, _) = rest.split_first_chunk()?;
        Some(Self {
            kind,
            group: u64::from_le_bytes(*group),
            text: u32::from_le_bytes(*text),
            columns: u64::from_le_bytes(*columns),
        })
    }

    /// Where the columns begin.
    pub(crate) fn columns_from(&self) -> usize {
        HEAD + self.text as usize
    }

    /// Bytes of the part.
    pub(crate) fn size(&self) -> u64 {
        self.columns.saturating_add(self.columns_from() as u64)
    }

    /// The bytes of the footer.
    pub(crate) fn footer<'a>(&self, part: &'a [u8]) -> &'a [u8] {
        part.get(HEAD..self.columns_from()).unwrap_or_default()
    }

    /// The text.
    pub(crate) fn text(&self, part: &[u8]) -> String {
        String::from_utf8_lossy(self.footer(part)).into_owned()
    }
}
