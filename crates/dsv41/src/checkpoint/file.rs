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
        let start = (offset % PAGE as u64) as usize;
        let pages = (start + len).div_ceil(PAGE);
        if pages > self.pages.len() {
            refusable(|| self.pages.try_reserve_exact(pages - self.pages.len()))?;
            self.pages.resize(pages, Page([0; PAGE]));
        }
        (self.start, self.len) = (start, len);
        // SAFETY: pages are bytes without padding.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), pages * PAGE) };
        let done = direct::read(file, offset - start as u64, memory, start + len);
        let from = done.max(start);
        file.read_exact_at(&mut memory[from..start + len], offset + (from - start) as u64)
    }
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

    /// Reads whole pages from `first` on until `memory` holds `needed` bytes, where the system's cache does not hold
    /// them; gives the number of bytes read. What is missing, for whatever reason, is left to an ordinary read, which
    /// finds the error too.
    pub fn read(file: &File, first: u64, memory: &mut [u8], needed: usize) -> usize {
        if needed < LARGE || cached(file, first, needed) {
            return 0;
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let Ok(direct) = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path) else {
            return 0;
        };
        let mut done = 0;
        while done < needed {
            let until = memory.len().min(done + CHUNK);
            match direct.read_at(&mut memory[done..until], first + done as u64) {
                Ok(n) if n > 0 && n.is_multiple_of(PAGE) => done += n,
                // The end of the file, or a file system that cannot.
                Ok(n) => return (done + n).min(needed),
                Err(_) => return done,
            }
        }
        needed
    }

    /// Whether the system's cache holds most of `len` bytes from `first` on; also where it does not say.
    fn cached(file: &File, first: u64, len: usize) -> bool {
        // SAFETY: nothing reads the map, which is there to ask about.
        let Ok(map) = (unsafe { MmapOptions::new().offset(first).len(len).map(file) }) else {
            return true;
        };
        let mut pages = vec![0u8; len.div_ceil(PAGE)];
        // SAFETY: the map has as many pages, of this size or larger.
        let said = unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), len, pages.as_mut_ptr()) };
        said != 0 || 2 * pages.iter().filter(|&page| page & 1 == 1).count() >= pages.len()
    }
}

#[cfg(not(target_os = "linux"))]
mod direct {
    /// Reads nothing: the ordinary read does.
    pub fn read(_file: &std::fs::File, _first: u64, _memory: &mut [u8], _needed: usize) -> usize {
        0
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
            for cold in [true, false] {
                if cold {
                    evict(&file);
                }
                read.read(&file, offset as u64, len).unwrap();
                assert!(*read == bytes[offset..offset + len], "{len} bytes from {offset}, cold: {cold}");
            }
        }
        assert!((LEN..LEN + 2 * PAGE).contains(&read.capacity()));
    }

    #[test]
    fn a_range_beyond_the_end_is_an_error() {
        let (file, _) = file(1 << 20);
        for (offset, len) in [(0, (1 << 20) + 1), (700_000, 700_000), (2 << 20, 1), (1 << 20, 600_000)] {
            let error = FileBytes::default().read(&file, offset, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len} bytes from {offset}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn large_ranges_outside_the_cache_are_read_directly() {
        let (file, bytes) = file(1 << 20);
        let mut memory = FileBytes::default();
        memory.read(&file, 0, 1 << 20).unwrap();
        let mut page = |needed| {
            let pages = unsafe { std::slice::from_raw_parts_mut(memory.pages.as_mut_ptr().cast(), 1 << 20) };
            let done = direct::read(&file, 0, pages, needed);
            assert_eq!(pages[..done], bytes[..done]);
            done
        };
        evict(&file);
        match page(1 << 20) {
            0 => println!("skipped: this file system reads nothing directly"),
            done => assert_eq!(done, 1 << 20),
        }
        assert_eq!(page(100 << 10), 0, "small ranges are not");
        file.read_exact_at(&mut vec![0; 1 << 20], 0).unwrap();
        assert_eq!(page(1 << 20), 0, "nor what the cache holds");
    }
}
