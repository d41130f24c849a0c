//! Large values, in chains of overflow pages.
//!
//! A chain belongs to one entry of one leaf and never changes: it is written before the entry points to it, and freed
//! when no entry does any more. So a thread that holds the leaf's latch may follow it, one page at a time. No thread
//! that waits for the latch of an overflow page can block the holder of that latch.
//!
//! The layout is in [`layout`](super::layout). Each part says how many bytes are still to come, so a damaged chain
//! ends where it stops to fit.

use super::layout::{At, Chain, Flaw, parse_part, parts, write_part};
use crate::{
    PageId, Result,
    page::{PageKind, PageSize},
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

/// Writes a large value, which is not empty, of a tree with nodes of `size` to new pages; if one cannot be had, gives
/// the others back.
pub(super) fn write<P: PageWrite>(pages: &P, size: PageSize, value: &[u8]) -> Result<Chain> {
    let parts: Vec<(PageSize, usize)> = parts(value.len(), size, pages.part_size_max()).collect();
    let mut before = value;
    let mut rest = None;
    // From the end, so that each page is written once and what is there at any time is a whole chain.
    for (size, bytes) in parts.into_iter().rev() {
        let (left, part) = before.split_at(before.len() - bytes);
        before = left;
        let chain = pages.allocate(PageKind::Overflow, size).and_then(|mut page| {
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
        let _ = free_all(pages, chain);
    }
}

/// Frees the pages of a chain from its begin, as far as the budget goes, which it lowers. Returns what is left of the
/// chain. `held` are the pages that are latched meanwhile.
pub(super) fn free<P: PageWrite>(
    pages: &P,
    held: &[PageId],
    chain: Chain,
    budget_pages: &mut usize,
) -> Result<Option<Chain>> {
    let mut rest = Some(chain);
    while let Some(chain) = rest
        && *budget_pages > 0
    {
        if held.contains(&chain.first) {
            return Err(Flaw::Reached.error(chain.first));
        }
        let page = pages.write(chain.first)?;
        rest = parse_part(&page, chain).at(chain.first)?.rest;
        pages.free(page)?;
        *budget_pages -= 1;
    }
    Ok(rest)
}

/// Frees a whole chain.
pub(super) fn free_all<P: PageWrite>(pages: &P, chain: Chain) -> Result<()> {
    free(pages, &[], chain, &mut { usize::MAX }).map(|_| ())
}
