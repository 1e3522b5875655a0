//! Reading of tensors: large ones past the system's cache where it does not hold them, which costs the processor
//! almost nothing and leaves the cache to others.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;

use tokenfare_device::refusable;

/// What direct reading needs of positions, lengths and addresses on usual file systems.
const PAGE: usize = 4096;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// Bytes of a file, in memory that is used again from one read to the next.
#[derive(Debug, Default)]
pub struct FileBytes {
    /// Whole pages of the file; memory beyond the last read keeps what it held.
    pages: Vec<Page>,
    /// Where the bytes begin in the first page.
    start: usize,
    len: usize,
}

impl FileBytes {
    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.pages.capacity() * PAGE
    }

    /// Replaces the contents by `len` bytes of `file` from `offset` on.
    pub(super) fn read(&mut self, file: &File, offset: u64, len: usize) -> io::Result<()> {
        file.read_exact_at(&mut self.reserve(offset, len)?[start(offset)..][..len], offset)
    }

    /// As [`Self::read`] for a large range that the system's cache does not hold, straight from the disk; `false` where
    /// that is not so, or does not go for whatever reason: an ordinary read finds the error.
    pub(super) fn read_past_cache(&mut self, file: &File, offset: u64, len: usize) -> io::Result<bool> {
        let start = start(offset);
        let memory = self.reserve(offset, len)?;
        Ok(direct::read(file, offset - start as u64, memory, start + len))
    }

    /// Memory for whole pages of a file, of which the contents will be `len` bytes from `offset` on.
    fn reserve(&mut self, offset: u64, len: usize) -> io::Result<&mut [u8]> {
        let pages = (start(offset) + len).div_ceil(PAGE);
        if pages > self.pages.len() {
            refusable(|| self.pages.try_reserve_exact(pages - self.pages.len()))?;
            self.pages.resize(pages, Page([0; PAGE]));
        }
        (self.start, self.len) = (start(offset), len);
        // SAFETY: pages are bytes without padding.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), pages * PAGE) })
    }
}

/// Where the page of a position begins, counted back from it.
fn start(offset: u64) -> usize {
    (offset % PAGE as u64) as usize
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: pages are bytes without padding, and hold `start + len` of them.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast::<u8>().add(self.start), self.len) }
    }
}

#[cfg(target_os = "linux")]
mod direct {
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};

    use memmap2::MmapOptions;

    use super::PAGE;

    /// Bytes from which on it is worth a look at what the system's cache holds.
    const LARGE: usize = 256 << 10;

    /// Bytes that are read at a time.
    const CHUNK: usize = 4 << 20;

    /// Reads whole pages from `first` on until `memory` holds `needed` bytes, if these are many and not in the system's
    /// cache; `false` if not all were read.
    pub fn read(file: &File, first: u64, memory: &mut [u8], needed: usize) -> bool {
        if needed < LARGE || cached(file, first, needed) {
            return false;
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let Ok(direct) = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path) else {
            return false;
        };
        let mut done = 0;
        while done < needed {
            let until = memory.len().min(done + CHUNK);
            match direct.read_at(&mut memory[done..until], first + done as u64) {
                Ok(n) if n > 0 && n.is_multiple_of(PAGE) => done += n,
                // The end of the file, or a file system that cannot.
                Ok(n) => return done + n >= needed,
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether the system's cache holds most of `len` bytes from `first` on; also where it does not say.
    fn cached(file: &File, first: u64, len: usize) -> bool {
        // SAFETY: nothing reads the map, which is there to ask about.
        let Ok(map) = (unsafe { MmapOptions::new().offset(first).len(len).map(file) }) else {
            return true;
        };
        let mut pages = vec![0u8; len.div_ceil(PAGE)];
        // SAFETY: the map has as many pages of this size; with larger ones the call fails or fills fewer.
        let said = unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), len, pages.as_mut_ptr()) };
        let held = said != 0 || 2 * pages.iter().filter(|&page| page & 1 == 1).count() >= pages.len();
        // Of files that the process neither owns nor may write, every page is said to be held.
        held && at_hand(file, first + len as u64 / 2)
    }

    /// Whether the byte at `at` can be read without waiting for the disk; also where the file system does not say.
    pub(super) fn at_hand(file: &File, at: u64) -> bool {
        let mut byte = 0u8;
        let place = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: one place of one byte.
        let n = unsafe { libc::preadv2(file.as_raw_fd(), &raw const place, 1, at as i64, libc::RWF_NOWAIT) };
        n >= 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock
    }
}

#[cfg(not(target_os = "linux"))]
mod direct {
    /// Reads nothing.
    pub fn read(_file: &std::fs::File, _first: u64, _memory: &mut [u8], _needed: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of `len` bytes that the system was asked to take from its cache.
    fn file(len: usize) -> (File, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        evict(&file);
        (file, bytes)
    }

    fn evict(file: &File) {
        file.sync_all().unwrap();
        #[cfg(target_os = "linux")]
        // SAFETY: a plain call on an open file.
        unsafe {
            libc::posix_fadvise(std::os::fd::AsRawFd::as_raw_fd(file), 0, 0, libc::POSIX_FADV_DONTNEED);
        }
    }

    #[test]
    fn any_range_is_read_from_the_cache_and_past_it() {
        const LEN: usize = (9 << 20) + 1234;
        let (file, bytes) = file(LEN);
        let mut read = FileBytes::default();
        let ends =
            [(0, LEN), (5, 300 << 10), (4096, 4096), (4095, 8 << 20), (LEN - 700_000, 700_000), (77, 0)];
        for (offset, len) in ends.into_iter().chain([(8 << 20, 4096), (123_457, 1 << 20), (LEN, 0)]) {
            evict(&file);
            if read.read_past_cache(&file, offset as u64, len).unwrap() {
                assert!(*read == bytes[offset..offset + len], "{len} bytes from {offset}, past the cache");
            }
            read.read(&file, offset as u64, len).unwrap();
            assert!(*read == bytes[offset..offset + len], "{len} bytes from {offset}");
        }
        assert!((LEN..LEN + 2 * PAGE).contains(&read.capacity()));
    }

    #[test]
    fn a_range_beyond_the_end_is_an_error_of_an_ordinary_read_alone() {
        let (file, _) = file(1 << 20);
        for (offset, len) in [(0, (1 << 20) + 1), (700_000, 700_000), (2 << 20, 1), (1 << 20, 600_000)] {
            let mut read = FileBytes::default();
            assert!(!read.read_past_cache(&file, offset, len).unwrap(), "{len} bytes from {offset}");
            let error = read.read(&file, offset, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len} bytes from {offset}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_large_ranges_outside_the_cache_are_read_past_it() {
        let (file, bytes) = file(1 << 20);
        let mut read = FileBytes::default();
        if read.read_past_cache(&file, 0, 1 << 20).unwrap() {
            assert_eq!(*read, bytes);
        } else {
            println!("skipped: nothing is read past the cache of this file system");
        }
        assert!(!read.read_past_cache(&file, 0, 100 << 10).unwrap(), "small");
        evict(&file);
        // Another user's file is said to be held: then the look at one byte decides.
        if !direct::at_hand(&file, 1 << 19) {
            file.read_exact_at(&mut [0], 1 << 19).unwrap();
            assert!(direct::at_hand(&file, 1 << 19));
        }
        file.read_exact_at(&mut vec![0; 1 << 20], 0).unwrap();
        assert!(!read.read_past_cache(&file, 0, 1 << 20).unwrap(), "in the cache");
    }
}
