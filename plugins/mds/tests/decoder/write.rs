//! Writes shards as MDSWriter does.

/// A column: its name, its encoding, and the size of its values, if they have one.
pub type Column = (&'static str, &'static str, Option<u32>);

/// The shard of these columns and samples. A sample has a value for each column.
pub fn shard(columns: &[Column], samples: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let samples: Vec<_> = samples.iter().map(|values| sample(columns, values)).collect();
    shard_of(&description(columns), &samples)
}

/// The shard with this description and these samples.
pub fn shard_of(description: &str, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut place = 8 + 4 * samples.len() + description.len();
    let mut bytes = (samples.len() as u32).to_le_bytes().to_vec();
    bytes.extend((place as u32).to_le_bytes());
    for sample in samples {
        place += sample.len();
        bytes.extend((place as u32).to_le_bytes());
    }
    bytes.extend(description.as_bytes());
    bytes.extend(samples.concat());
    bytes
}

/// The JSON of these columns.
pub fn description(columns: &[Column]) -> String {
    let all = |of: fn(&Column) -> serde_json::Value| -> serde_json::Value {
        columns.iter().map(of).collect()
    };
    serde_json::json!({
        "version": 2, "format": "mds", "compression": null, "hashes": [], "size_limit": 67_108_864,
        "column_names": all(|column| column.0.into()),
        "column_encodings": all(|column| column.1.into()),
        "column_sizes": all(|column| column.2.into()),
    })
    .to_string()
}

/// A sample: the sizes of values without a common one, then the values.
pub fn sample(columns: &[Column], values: &[Vec<u8>]) -> Vec<u8> {
    let sized = columns.iter().zip(values).filter(|(column, _)| column.2.is_none());
    let sizes: Vec<_> = sized.flat_map(|(_, value)| (value.len() as u32).to_le_bytes()).collect();
    [sizes, values.concat()].concat()
}

/// An array of one byte each, with its shape before it.
pub fn array(shape: &[u8], elements: &[u8]) -> Vec<u8> {
    [&[(shape.len() as u8) << 2], shape, elements].concat()
}

/// A list as `list[jpeg]` has it.
pub fn list(elements: &[&[u8]]) -> Vec<u8> {
    let number = |number: usize| (number as u32).to_le_bytes();
    let sizes: Vec<_> = elements.iter().flat_map(|element| number(element.len())).collect();
    [&[0; 4], &number(elements.len())[..], &sizes, &elements.concat()].concat()
}
