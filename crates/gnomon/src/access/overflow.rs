//! Large values, in chains of overflow pages.
//!
//! A chain belongs to one entry of one leaf and never changes: it is written before the entry points to it, and
//! freed when no entry does any more. So whoever holds the leaf's latch may follow it, one page at a time, and
//! latches of overflow pages are waited for by nobody who could stand in the way of their holder.
//!
//! The layout is in [`layout`](super::layout). Each part says how many bytes are still to come, so a damaged chain
//! ends where it stops to fit.

use super::layout::{At, Chain, Flaw, OVERFLOW_PART_BYTES, parse_part, write_part};
use crate::{
    PageId, Result,
    page::PageKind,
    store::{PageGuard, PageRead, PageWrite},
};

/// Reads a large value. `leaf` is the page that is latched meanwhile.
pub(super) fn read<P: PageRead>(pages: &P, leaf: PageId, chain: Chain) -> Result<Vec<u8>> {
    let mut value = Vec::with_capacity(chain.bytes as usize);
    let mut rest = Some(chain);
    while let Some(chain) = rest {
        if chain.first == leaf {
            return Err(Flaw::Reached.error(leaf));
        }
        let page = pages.read(chain.first)?;
        let part = parse_part(&page, chain).at(chain.first)?;
        value.extend_from_slice(part.bytes);
        rest = part.rest;
    }
    Ok(value)
}

/// Writes a large value, which is not empty, to new pages; if one cannot be had, gives the others back.
pub(super) fn write<P: PageWrite>(pages: &P, value: &[u8]) -> Result<Chain> {
    let mut rest = None;
    // From the end, so that each page is written once and what is there at any time is a whole chain.
    for part in value.chunks(OVERFLOW_PART_BYTES).rev() {
        let chain = pages.allocate(PageKind::Overflow).and_then(|mut page| {
            let id = page.id();
            write_part(&mut page, id, part, rest).at(id)
        });
        match chain {
            Ok(chain) => rest = Some(chain),
            Err(error) => {
                give_back(pages, rest);
                return Err(error);
            }
        }
    }
    Ok(rest.expect("a value that is too long for a leaf is not empty"))
}

/// Frees a chain that nothing points to, after an error that matters more than one that this may meet.
pub(super) fn give_back<P: PageWrite>(pages: &P, chain: Option<Chain>) {
    if let Some(chain) = chain {
        let _ = free(pages, &[], chain, usize::MAX);
    }
}

/// Frees the pages of a chain from its begin, but at most `budget_pages`. Returns what is left of it. `held` are the
/// pages that are latched meanwhile.
pub(super) fn free<P: PageWrite>(
    pages: &P,
    held: &[PageId],
    chain: Chain,
    budget_pages: usize,
) -> Result<Option<Chain>> {
    let mut rest = Some(chain);
    for _ in 0..budget_pages {
        let Some(chain) = rest else { break };
        if held.contains(&chain.first) {
            return Err(Flaw::Reached.error(chain.first));
        }
        let page = pages.write(chain.first)?;
        rest = parse_part(&page, chain).at(chain.first)?.rest;
        pages.free(page)?;
    }
    Ok(rest)
}
