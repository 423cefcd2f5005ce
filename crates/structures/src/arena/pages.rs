//! Pages of an arena: groups of one to sixteen, taken and given back.
//!
//! A block is sixteen pages, aligned, with a bit per free page. Groups are a power of two of pages,
//! aligned to their size, so a block whose pages are all free again is whole again. Blocks are taken
//! in order of address from the part never used; an empty block's memory can be returned to the
//! kernel, which keeps its addresses.

pub(crate) const PAGE_BYTES: usize = if cfg!(loom) { 64 } else { 4096 };
pub(crate) const ORDER_MAX: u32 = if cfg!(loom) { 1 } else { 4 };
const BLOCK_PAGES: u32 = 1 << ORDER_MAX;
pub(crate) const BLOCK_BYTES: usize = PAGE_BYTES << ORDER_MAX;
const ALL_FREE: u16 = ((1u32 << BLOCK_PAGES) - 1) as u16;
/// Part-free blocks looked at before a whole one is broken.
const SEARCH_MAX: usize = 8;

#[derive(Default)]
struct Block {
    free: u16,
    /// In `partial`, perhaps without a free page left.
    is_listed: bool,
}

#[derive(Default)]
pub(crate) struct Pages {
    blocks: Vec<Block>,
    block_max: u32,
    partial: Vec<u32>,
    /// Empty blocks whose memory is still there.
    dirty: Vec<u32>,
    /// Empty blocks whose memory was returned.
    clean: Vec<u32>,
    /// Pages in use.
    pub(crate) used: u64,
}

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        let mut pages = Self {
            block_max: u32::try_from(bytes / BLOCK_BYTES).expect("an arena is at most 32 GiB"),
            ..Self::default()
        };
        // Page 0 is never used: reference 0 means none.
        if pages.block_max > 0 {
            pages.blocks.push(Block {
                free: ALL_FREE & !1,
                is_listed: true,
            });
            pages.partial.push(0);
        }
        pages
    }

    /// First page of a group of `1 << order`.
    pub(crate) fn take(&mut self, order: u32) -> Option<u32> {
        debug_assert!(order <= ORDER_MAX);
        let page = self.take_partial(order).or_else(|| {
            let block = self.take_block()?;
            Some(self.carve(block, order, 0))
        })?;
        self.used += 1 << order;
        Some(page)
    }

    pub(crate) fn give(&mut self, page: u32, order: u32) {
        self.used -= 1 << order;
        let index = page / BLOCK_PAGES;
        let block = &mut self.blocks[index as usize];
        let mask = group_mask(order) << (page % BLOCK_PAGES);
        assert!(block.free & mask == 0, "pages given back twice");
        block.free |= mask;
        if block.free == ALL_FREE {
            // A listed block is dropped from the list when it is met there.
            self.dirty.push(index);
        } else if !block.is_listed {
            block.is_listed = true;
            self.partial.push(index);
        }
    }

    /// An empty block whose memory may be returned; the caller answers with [`Pages::returned`].
    pub(crate) fn take_dirty(&mut self) -> Option<u32> {
        self.dirty.pop()
    }

    pub(crate) fn dirty_len(&self) -> usize {
        self.dirty.len()
    }

    pub(crate) fn returned(&mut self, block: u32) {
        self.clean.push(block);
    }

    /// Blocks ever used; those after have never been touched.
    pub(crate) fn frontier(&self) -> u32 {
        self.blocks.len() as u32
    }

    fn take_partial(&mut self, order: u32) -> Option<u32> {
        let mut at = self.partial.len();
        let mut looked = 0;
        while at > 0 && looked < SEARCH_MAX {
            at -= 1;
            looked += 1;
            let index = self.partial[at];
            let block = &mut self.blocks[index as usize];
            if block.free == 0 || block.free == ALL_FREE {
                block.is_listed = false;
                self.partial.swap_remove(at);
                continue;
            }
            let mut position = 0;
            while position < BLOCK_PAGES {
                if (block.free >> position) & group_mask(order) == group_mask(order) {
                    return Some(self.carve(index, order, position));
                }
                position += 1 << order;
            }
        }
        None
    }

    fn take_block(&mut self) -> Option<u32> {
        if let Some(block) = self.dirty.pop().or_else(|| self.clean.pop()) {
            return Some(block);
        }
        let block = self.frontier();
        if block >= self.block_max {
            return None;
        }
        self.blocks.push(Block {
            free: ALL_FREE,
            is_listed: false,
        });
        Some(block)
    }

    fn carve(&mut self, index: u32, order: u32, position: u32) -> u32 {
        let block = &mut self.blocks[index as usize];
        block.free &= !(group_mask(order) << position);
        if block.free != 0 && !block.is_listed {
            block.is_listed = true;
            self.partial.push(index);
        }
        index * BLOCK_PAGES + position
    }
}

fn group_mask(order: u32) -> u16 {
    ((1u32 << (1 << order)) - 1) as u16
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use env::random::Rng;

    #[test]
    fn groups_never_overlap_and_blocks_become_whole() {
        let mut rng = Rng::seeded(11);
        let mut pages = Pages::new(64 * BLOCK_BYTES);
        let mut owner = vec![false; 64 * 16];
        let mut groups: Vec<(u32, u32)> = Vec::new();
        for _ in 0..50_000 {
            if rng.below(2) == 0 {
                let order = rng.below(5) as u32;
                if let Some(page) = pages.take(order) {
                    assert!(page > 0 && page % (1 << order) == 0);
                    for page in page..page + (1 << order) {
                        assert!(!std::mem::replace(&mut owner[page as usize], true));
                    }
                    groups.push((page, order));
                }
            } else if !groups.is_empty() {
                let at = rng.below(groups.len() as u64) as usize;
                let (page, order) = groups.swap_remove(at);
                pages.give(page, order);
                owner[page as usize..(page + (1 << order)) as usize].fill(false);
            }
            if rng.below(16) == 0
                && let Some(block) = pages.take_dirty()
            {
                let first = (block * 16) as usize;
                assert!(owner[first..first + 16].iter().all(|&used| !used));
                pages.returned(block);
            }
        }
        for (page, order) in groups {
            pages.give(page, order);
        }
        assert_eq!(pages.used, 0);
        let whole = (0..).map_while(|_| pages.take(4)).count();
        assert_eq!(whole, 63, "all but the block of page 0");
    }
}
