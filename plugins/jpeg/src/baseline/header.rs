//! Parses the markers before the entropy-coded bytes: the kind of an image, and its tables. It
//! follows ITU-T T.81, annex B; the colours are chosen as in libjpeg.

use crate::baseline::huffman::{Code, Factors, placed};
use crate::plane::Color;

/// The tables of an image. They are kept for the next one, which usually has the same.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Factors of the coefficients, in the order of their coding.
    factors: [Option<Factors>; 4],
    codes: [[Code; 4]; 2],
    /// Whether this image has defined each code.
    has_code: [[bool; 4]; 2],
}

impl Tables {
    /// The codes of a component: of first coefficients, and of others.
    pub(crate) fn codes(&self, component: &Component) -> [&Code; 2] {
        [&self.codes[0][component.codes[0]], &self.codes[1][component.codes[1]]]
    }
    pub(crate) fn factors(&self, component: &Component) -> &Factors {
        self.factors[component.factors].as_ref().unwrap_or(&[(0, 0); 64])
    }
}

/// The segments before the scan.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// `None` if the image is of a kind that is left to the library.
    pub(crate) scan: Option<Scan>,
}

/// A scan of all components.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) color: Color,
    pub(crate) components: Vec<Component>,
    /// The number of units between two restart markers; 0 if there are none.
    pub(crate) restart: usize,
    /// The start of the entropy-coded bytes.
    pub(crate) start: usize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Component {
    id: u8,
    /// Columns and rows of blocks in a unit.
    pub(crate) blocks: [usize; 2],
    /// Indices of its tables.
    factors: usize,
    codes: [usize; 2],
}

/// The frame: size and components.
struct Frame {
    width: usize,
    height: usize,
    components: Vec<Component>,
    /// Sequential, 8 bits a sample.
    is_plain: bool,
}

/// The facts about the colours in the application markers.
#[derive(Default)]
struct Application {
    is_jfif: bool,
    /// Adobe's transform.
    adobe: Option<u8>,
}

/// Reads the markers up to the first scan.
///
/// # Errors
/// The error says what was expected and what was found.
pub(crate) fn read(jpeg: &[u8], max_pixels: u64, tables: &mut Tables) -> Result<Header, String> {
    if !jpeg.starts_with(&[0xff, 0xd8]) {
        let found = match jpeg {
            [] => "no bytes".to_owned(),
            _ => format!("{:02x?}", &jpeg[..jpeg.len().min(4)]),
        };
        return Err(format!("expected a JPEG, which begins with [ff, d8], found {found}"));
    }
    tables.factors = [None; 4];
    tables.has_code = [[false; 4]; 2];
    let (mut at, mut restart) = (2, 0);
    let mut frame: Option<Frame> = None;
    let mut application = Application::default();
    loop {
        let (marker, body, end) = segment(jpeg, at)?;
        let wrong = || {
            format!(
                "expected a segment of the marker ff {marker:02x} at byte {at}, found {} bytes that are none",
                body.len()
            )
        };
        match marker {
            0xc4 => tables.set_codes(body).ok_or_else(wrong)??,
            0xdb => tables.set_factors(body).ok_or_else(wrong)?,
            0xdd => restart = usize::from(u16(body, 0).ok_or_else(wrong)?),
            0xe0 => application.is_jfif |= body.starts_with(b"JFIF\0"),
            0xee if body.starts_with(b"Adobe") => application.adobe = body.get(11).copied(),
            0xc0..=0xcf if marker != 0xc8 && marker != 0xcc => {
                frame = Some(read_frame(marker, body, max_pixels).ok_or_else(wrong)??);
            }
            0xda => {
                let Some(frame) = &mut frame else {
                    return Err(format!(
                        "expected a frame before the scan at byte {at}, found none"
                    ));
                };
                let is_whole = frame.read_scan(body).ok_or_else(wrong)?;
                let color = frame.color(&application);
                let (width, height) = (frame.width, frame.height);
                let Some(color) = color.filter(|_| is_whole && frame.is_plain) else {
                    return Ok(Header { width, height, scan: None });
                };
                let components = std::mem::take(&mut frame.components);
                tables.check(&components)?;
                let scan = Scan { color, components, restart, start: end };
                return Ok(Header { width, height, scan: Some(scan) });
            }
            _ => {}
        }
        at = end;
    }
}

/// The marker at `at` or after it, its segment, and the end of the segment.
fn segment(jpeg: &[u8], mut at: usize) -> Result<(u8, &[u8], usize), String> {
    let ends = || {
        format!(
            "expected a scan, but the JPEG ends inside of its header, after {} bytes",
            jpeg.len()
        )
    };
    loop {
        // Bytes between segments are skipped, as libjpeg does.
        at += memchr::memchr(0xff, jpeg.get(at..).unwrap_or_default()).ok_or_else(ends)?;
        let marker = *jpeg.get(at + 1).ok_or_else(ends)?;
        at += 1;
        match marker {
            0x00 | 0x01 | 0xd0..=0xd8 | 0xff => continue,
            0xd9 => {
                return Err(format!(
                    "expected a scan, found the end of the image (ff d9) at byte {}",
                    at - 1
                ));
            }
            _ => {}
        }
        let length = usize::from(u16(jpeg, at + 1).ok_or_else(ends)?);
        let body = at + 3..at + 1 + length.max(2);
        let end = body.end;
        return Ok((marker, jpeg.get(body).ok_or_else(ends)?, end));
    }
}

/// A big-endian number.
fn u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// `None` if the segment is not one of a frame.
fn read_frame(marker: u8, body: &[u8], max_pixels: u64) -> Option<Result<Frame, String>> {
    let (height, width) = (usize::from(u16(body, 1)?), usize::from(u16(body, 3)?));
    let precision = body[0];
    let kind = match marker {
        0xc0..=0xc2 => None,
        0xc3 | 0xc7 | 0xcb | 0xcf => Some("a lossless one"),
        0xc5 | 0xc6 => Some("a hierarchical one"),
        _ => Some("one with arithmetic coding"),
    };
    if let Some(kind) = kind {
        return Some(Err(format!(
            "expected a baseline or progressive JPEG, found {kind} (ff {marker:02x})"
        )));
    }
    if precision != 8 {
        return Some(Err(format!("expected 8 bits a sample, found {precision}")));
    }
    if width == 0 || height == 0 {
        return Some(Err(format!("expected an image with pixels, found {width} x {height}")));
    }
    let count = usize::from(*body.get(5)?);
    // The memory that an image takes depends on its components, too.
    if width as u64 * height as u64 * count.max(3) as u64 > max_pixels.saturating_mul(3) {
        return Some(Err(format!(
            "an image of {width} x {height} in {count} components has more than max_pixels ({max_pixels} in \
             3 components); raise max_pixels if images may be that large, and limits.memory with it"
        )));
    }
    let components = body.get(6..6 + 3 * count)?;
    let component = |bytes: &[u8]| Component {
        id: bytes[0],
        blocks: [usize::from(bytes[1] >> 4), usize::from(bytes[1] & 15)],
        factors: usize::from(bytes[2] & 3),
        codes: [0; 2],
    };
    let components = components.chunks_exact(3).map(component).collect();
    Some(Ok(Frame { width, height, components, is_plain: marker != 0xc2 }))
}

impl Frame {
    /// The codes of the components. Returns whether the scan has all of them, and nothing else.
    /// `None` if the segment is not one of a scan.
    fn read_scan(&mut self, body: &[u8]) -> Option<bool> {
        let parts = body.get(1..1 + 2 * usize::from(*body.first()?))?;
        let ids = parts.iter().step_by(2);
        let is_whole = ids.eq(self.components.iter().map(|component| &component.id));
        for (component, part) in self.components.iter_mut().zip(parts.chunks_exact(2)) {
            component.codes = [usize::from(part[1] >> 4 & 3), usize::from(part[1] & 3)];
        }
        Some(is_whole)
    }

    /// The colours of the components, and which of them have fewer columns and rows. `None` if the
    /// image is of an unusual kind.
    fn color(&mut self, application: &Application) -> Option<Color> {
        match &mut self.components[..] {
            [grey] => {
                // A single component has one block in a unit.
                grey.blocks = [1, 1];
                Some(Color::Grey)
            }
            [first, second, third] => {
                let is_half = |blocks: usize| (1..=2).contains(&blocks);
                let is_usual = first.blocks.into_iter().all(is_half)
                    && second.blocks == [1, 1]
                    && third.blocks == [1, 1];
                let is_rgb = match application.adobe {
                    _ if application.is_jfif => false,
                    Some(transform) => transform == 0,
                    None => [first.id, second.id, third.id] == *b"RGB",
                };
                is_usual.then_some(if is_rgb { Color::Rgb } else { Color::YCbCr })
            }
            _ => None,
        }
    }
}

impl Tables {
    /// `None` if the segment is not one of Huffman tables.
    fn set_codes(&mut self, mut body: &[u8]) -> Option<Result<(), String>> {
        while let Some((kind, rest)) = body.split_first() {
            let symbols: usize = rest.get(..16)?.iter().map(|count| usize::from(*count)).sum();
            let (table, after) = rest.split_at_checked(16 + symbols)?;
            let (class, index) = (usize::from(kind >> 4 & 1), usize::from(kind & 3));
            if symbols > 256 || kind & !0x13 != 0 {
                return None;
            }
            if let Err(why) = self.codes[class][index].set(table, class == 0) {
                return Some(Err(why));
            }
            self.has_code[class][index] = true;
            body = after;
        }
        Some(Ok(()))
    }

    /// `None` if the segment is not one of quantization tables.
    fn set_factors(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((kind, rest)) = body.split_first() {
            let size = if kind >> 4 == 0 { 64 } else { 128 };
            let (table, after) = rest.split_at_checked(size)?;
            let factor = |at: usize| match size {
                64 => i16::from(table[at]),
                _ => u16::from_be_bytes([table[2 * at], table[2 * at + 1]]) as i16,
            };
            *self.factors.get_mut(usize::from(kind & 15))? =
                Some(placed(std::array::from_fn(factor)));
            body = after;
        }
        Some(())
    }

    /// Whether the tables of the components were read.
    fn check(&self, components: &[Component]) -> Result<(), String> {
        for component in components {
            let missing = if self.factors[component.factors].is_none() {
                "quantization table (ff db)"
            } else if !self.has_code[0][component.codes[0]] || !self.has_code[1][component.codes[1]]
            {
                "Huffman table (ff c4)"
            } else {
                continue;
            };
            return Err(format!(
                "expected a {missing} for the component {}, found none",
                component.id
            ));
        }
        Ok(())
    }
}
