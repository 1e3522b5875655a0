//! The header of a safetensors file: eight bytes of length, then JSON.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// Bytes of the length in front of the header.
pub(super) const PREFIX: u64 = 8;

/// The longest accepted header, the format's own limit.
const LONGEST: u64 = 100_000_000;

/// One tensor of a header.
#[derive(Debug, Clone, PartialEq)]
pub struct HeaderTensor {
    /// The stored name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape in elements.
    pub shape: Vec<usize>,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// What is wrong with a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file ends before the header does.
    #[error("header of {header} bytes expected, found a file of {file} bytes")]
    Short {
        /// Bytes that the header says it has, with its length prefix.
        header: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// The length is beyond the format's limit.
    #[error("header of at most {LONGEST} bytes expected, found a length of {0}")]
    Long(u64),
    /// The header is not the JSON of the format.
    #[error("header is not valid JSON: {0}")]
    Json(String),
    /// A tensor's byte range is reversed or past the end of the data.
    #[error("tensor {tensor}: byte range {start}..{end} expected within the data of {data} bytes")]
    Range {
        /// The tensor.
        tensor: String,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes of data in the file.
        data: u64,
    },
    /// A tensor's byte range does not hold its shape.
    #[error("tensor {tensor}: expected {expected} bytes for {dtype:?} {shape:?}, found a range of {found}")]
    Size {
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<usize>,
        /// Bytes that type and shape need, in words if they overflow.
        expected: String,
        /// Bytes of the range.
        found: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first} and {second} overlap: {second} expected from byte {expected}, found at {found}")]
    Overlap {
        /// The tensor that comes first.
        first: String,
        /// The tensor that starts inside it.
        second: String,
        /// End of the first.
        expected: u64,
        /// Start of the second.
        found: u64,
    },
    /// Bytes that belong to no tensor.
    #[error("tensor {tensor}: expected from byte {expected}, found at {found}: a hole in the data")]
    Hole {
        /// The tensor after the hole.
        tensor: String,
        /// Where it should start.
        expected: u64,
        /// Where it starts.
        found: u64,
    },
    /// The file is longer than what the header describes.
    #[error("{expected} bytes of data expected after the header, found {found}")]
    Trailing {
        /// Bytes that the tensors take.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
}

/// A JSON object as pairs, which refuses a name that comes twice.
pub(super) struct Pairs<T>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut seen = HashSet::new();
                let mut pairs = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format_args!("duplicate name {name}")));
                    }
                    pairs.push((name, map.next_value()?));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Object(PhantomData))
    }
}

/// A header's value: a tensor, or the free text of `__metadata__`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Tensor(TensorInfo),
    Other(serde_json::Value),
}

/// Checks the length prefix and returns the bytes of prefix and header together.
pub(super) fn header_len(prefix: [u8; 8], file_len: u64) -> Result<u64, HeaderError> {
    let length = u64::from_le_bytes(prefix);
    if length > LONGEST {
        return Err(HeaderError::Long(length));
    }
    let header = PREFIX + length;
    if header > file_len { Err(HeaderError::Short { header, file: file_len }) } else { Ok(header) }
}

/// Parses the first bytes of a file of `file_len` bytes and checks that its tensors fill the data exactly.
///
/// # Errors
/// Names the tensor, what was expected and what was found.
pub fn parse_header(bytes: &[u8], file_len: u64) -> Result<Vec<HeaderTensor>, HeaderError> {
    let short = |header| HeaderError::Short { header, file: file_len.min(bytes.len() as u64) };
    let prefix = *bytes.first_chunk::<8>().ok_or_else(|| short(PREFIX))?;
    let header = header_len(prefix, file_len)?;
    let json = bytes.get(PREFIX as usize..header as usize).ok_or_else(|| short(header))?;
    let items: Pairs<Item> = serde_json::from_slice(json).map_err(|e| HeaderError::Json(e.to_string()))?;
    let data = file_len - header;
    let mut tensors = Vec::with_capacity(items.0.len());
    for (name, item) in items.0 {
        match item {
            Item::Tensor(info) => tensors.push(tensor(name, info, header, data)?),
            Item::Other(_) if name == "__metadata__" => {}
            Item::Other(value) => {
                let found = value.to_string().chars().take(80).collect::<String>();
                return Err(HeaderError::Json(format!(
                    "tensor {name}: expected dtype, shape, data_offsets, found {found}"
                )));
            }
        }
    }
    cover(&mut tensors, header, data)?;
    Ok(tensors)
}

fn tensor(name: String, info: TensorInfo, header: u64, data: u64) -> Result<HeaderTensor, HeaderError> {
    let TensorInfo { dtype, shape, data_offsets: (start, end) } = info;
    let (start, end) = (start as u64, end as u64);
    if start > end || end > data {
        return Err(HeaderError::Range { tensor: name, start, end, data });
    }
    let bytes = end - start;
    let bits = shape.iter().try_fold(dtype.bitsize() as u64, |bits, n| bits.checked_mul(*n as u64));
    if bits.is_none_or(|bits| bits % 8 != 0 || bits / 8 != bytes) {
        let expected = bits.map_or_else(|| "more than 2^61".to_owned(), |bits| bits.div_ceil(8).to_string());
        return Err(HeaderError::Size { tensor: name, dtype, shape, expected, found: bytes });
    }
    Ok(HeaderTensor { name, dtype, shape, offset: header + start, bytes })
}

/// Sorts by position and checks that the tensors follow each other from the first byte of data to the last.
fn cover(tensors: &mut [HeaderTensor], header: u64, data: u64) -> Result<(), HeaderError> {
    tensors.sort_by_key(|t| (t.offset, t.bytes));
    let mut end = header;
    for (at, tensor) in tensors.iter().enumerate() {
        let (expected, found) = (end - header, tensor.offset - header);
        if found < expected {
            let first = tensors[at - 1].name.clone();
            return Err(HeaderError::Overlap { first, second: tensor.name.clone(), expected, found });
        }
        if found > expected {
            return Err(HeaderError::Hole { tensor: tensor.name.clone(), expected, found });
        }
        end += tensor.bytes;
    }
    let expected = end - header;
    if expected == data { Ok(()) } else { Err(HeaderError::Trailing { expected, found: data }) }
}
