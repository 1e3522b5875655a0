//! Where memory lies on machines with several nodes.
//!
//! Threads are bound to CPUs in their order and take contiguous shares of a matrix. So the share that falls to a CPU is
//! to lie on the CPU's node: the system is told before the memory is first touched. Machines with one node are left alone.

use std::ops::Range;
use std::sync::OnceLock;

use crate::affinity;

/// The node of each CPU that the process may use, in the order of its threads; empty with less than two nodes.
fn nodes() -> &'static [usize] {
    static NODES: OnceLock<Vec<usize>> = OnceLock::new();
    NODES.get_or_init(|| {
        let lists: Vec<(usize, String)> = (0..MOST_NODES)
            .filter_map(|node| {
                let file = format!("/sys/devices/system/node/node{node}/cpulist");
                Some((node, std::fs::read_to_string(file).ok()?))
            })
            .collect();
        of_cpus(&affinity::allowed(), &lists)
    })
}

/// Nodes that the system's mask has room for here.
const MOST_NODES: usize = 64;

/// The node of each CPU by lists such as `0-3,8`; empty unless all are listed and they lie on several nodes.
fn of_cpus(cpus: &[usize], lists: &[(usize, String)]) -> Vec<usize> {
    let holds = |list: &str, cpu: usize| {
        list.trim().split(',').any(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            matches!((first.parse::<usize>(), last.parse::<usize>()), (Ok(a), Ok(b)) if (a..=b).contains(&cpu))
        })
    };
    let node = |&cpu: &usize| lists.iter().find(|(_, list)| holds(list, cpu)).map(|(node, _)| *node);
    let nodes: Option<Vec<usize>> = cpus.iter().map(node).collect();
    nodes.filter(|nodes| nodes.iter().any(|node| *node != nodes[0])).unwrap_or_default()
}

/// Cuts `len` bytes into the shares of the CPUs, whole pages of `page` bytes, neighbours on one node joined.
fn shares(nodes: &[usize], len: usize, page: usize) -> Vec<(usize, Range<usize>)> {
    let bound = |i: usize| if i == nodes.len() { len } else { len / page * i / nodes.len() * page };
    let mut shares: Vec<(usize, Range<usize>)> = Vec::new();
    for (i, &node) in nodes.iter().enumerate() {
        let range = bound(i)..bound(i + 1);
        match shares.last_mut() {
            Some((last, before)) if *last == node => before.end = range.end,
            _ if range.is_empty() => {}
            _ => shares.push((node, range)),
        }
    }
    shares
}

/// Asks the system to place untouched memory by the shares of the threads. A refusal costs speed only.
///
/// # Safety
/// `len` bytes at `start`, a multiple of `page`, are a mapping of this process.
pub(crate) unsafe fn place(start: *mut u8, len: usize, page: usize) {
    for (node, range) in shares(nodes(), len, page) {
        // SAFETY: the range lies inside the mapping.
        unsafe { prefer(start.add(range.start), range.len(), node) };
    }
}

/// Makes `node` the preferred place of a range that is not touched yet; says whether the system agreed.
///
/// # Safety
/// The range is whole pages of a mapping of this process.
#[cfg(target_os = "linux")]
unsafe fn prefer(start: *mut u8, len: usize, node: usize) -> bool {
    const MPOL_PREFERRED: libc::c_int = 1;
    let mask = 1u64 << node;
    // SAFETY: the call changes where pages will lie, not what they hold; the mask outlives it.
    unsafe { libc::syscall(libc::SYS_mbind, start, len, MPOL_PREFERRED, &raw const mask, 65usize, 0) == 0 }
}

/// Memory is left to the system here.
#[cfg(not(target_os = "linux"))]
unsafe fn prefer(_start: *mut u8, _len: usize, _node: usize) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_found_in_the_lists_of_nodes() {
        let lists = [(0, "0-1,4-5\n".to_owned()), (1, "2,3,6-7\n".to_owned())];
        assert_eq!(of_cpus(&[0, 1, 2, 3, 4, 5, 6, 7], &lists), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(of_cpus(&[1, 4], &lists), [0; 0], "one node");
        assert_eq!(of_cpus(&[1, 8], &lists), [0; 0], "a CPU of no node");
        assert_eq!(of_cpus(&[], &lists), [0; 0]);
    }

    #[test]
    fn shares_are_whole_pages_that_cover_the_memory() {
        assert_eq!(shares(&[0, 0, 1, 1], 80, 10), [(0, 0..40), (1, 40..80)]);
        assert_eq!(shares(&[0, 1, 0, 1], 85, 10), [(0, 0..20), (1, 20..40), (0, 40..60), (1, 60..85)]);
        assert_eq!(shares(&[0, 1], 10, 10), [(1, 0..10)]);
        assert_eq!(shares(&[], 80, 10), []);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_takes_a_preference_for_the_first_node() {
        let mut bytes = crate::HugeBytes::new(crate::memory::HUGE_PAGE).unwrap();
        let taken = {
            let start = bytes.as_mut_slice().as_mut_ptr();
            // SAFETY: exactly one huge page of a mapping that nothing else uses.
            unsafe { prefer(start, crate::memory::HUGE_PAGE, 0) }
        };
        // Kernels without NUMA support, and sandboxes, refuse the call.
        println!("mbind taken: {taken}");
        bytes.as_mut_slice().fill(3);
        assert!(bytes.as_slice().iter().all(|&b| b == 3));
    }
}
