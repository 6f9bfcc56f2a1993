//! Bodies of the fuzz targets `recorded_chunks` and `recorded_blocks`, and of the tests that replay their corpora: what a damaged store of
//! `record` may have.

use sockeye_history::{
    GroupReader, GroupWriter, Identity, Recorded, Values, facts_of, remedies_of, seal, unseal,
    unseal_version_1,
};

/// Chunks of one group, each with its length in two bytes.
pub(crate) fn recorded_chunks(bytes: &[u8]) {
    let chunks = split(bytes);
    let mut reader = GroupReader::default();
    let is_whole = chunks.iter().all(|chunk| reader.apply(chunk).is_ok());
    if !is_whole {
        return;
    }
    // Written again, the last sample has the same sockets.
    let sockets: Vec<(Identity, Values)> = reader
        .sockets()
        .map(|(identity, values)| (identity.clone(), *values))
        .collect();
    let recorded = sockets.iter().map(|(identity, values)| Recorded {
        identity: identity.clone(),
        values: *values,
    });
    let again = GroupWriter::default().push(reader.at_ms(), recorded.collect());
    let mut read_again = GroupReader::default();
    assert_eq!(read_again.apply(&again), Ok(()));
    assert_eq!(read_again.at_ms(), reader.at_ms());
    assert!(read_again.sockets().count() <= sockets.len());
    // Sealed, it has the same chunks.
    let mut sections = Vec::new();
    seal(&chunks, &mut |section| sections.push(section)).expect("each was read");
    let back = unseal(&sections, usize::MAX).expect("it was sealed");
    assert_eq!(back.len(), chunks.len());
}

/// A block, of which the first byte says how many samples are wanted, and texts of findings.
pub(crate) fn recorded_blocks(bytes: &[u8]) {
    let Some((&count, block)) = bytes.split_first() else {
        return;
    };
    // Sections of a length that the first byte chooses, too.
    let sections: Vec<Vec<u8>> = block.chunks(usize::from(count) + 1).map(<[u8]>::to_vec).collect();
    for chunks in [
        unseal_version_1(block, count.into()),
        unseal(&sections, count.into()),
    ]
    .into_iter()
    .flatten()
    {
        assert!(chunks.len() <= usize::from(count));
        let mut reader = GroupReader::default();
        // Damage shows itself in the chunk, at the latest.
        let read = chunks
            .iter()
            .take_while(|chunk| reader.apply(chunk).is_ok())
            .count();
        assert!(read <= chunks.len());
    }
    let text = String::from_utf8_lossy(block);
    assert!(facts_of(&text).len() <= block.len());
    assert!(remedies_of(&text).len() <= block.len() + 1);
}

fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (chunk, rest) = rest.split_at(len);
        chunks.push(chunk.to_vec());
        bytes = rest;
    }
    chunks
}
