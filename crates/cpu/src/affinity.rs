//! Binding of threads to CPUs; left to the system where it is not Linux.

#[cfg(target_os = "linux")]
pub(crate) use linux::{allowed, bind};

#[cfg(target_os = "linux")]
mod linux {
    /// The CPUs that this process may run on; empty when the system does not tell.
    pub fn allowed() -> Vec<usize> {
        // SAFETY: `cpu_set_t` is plain bits, for which zero is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is ours and its true size is given.
        if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
            return Vec::new();
        }
        // SAFETY: every number is below the size of the set.
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
    }

    /// Binds the calling thread to `cpu`; a refusal leaves the thread where the system puts it.
    pub fn bind(cpu: usize) {
        // SAFETY: as in `allowed`; `cpu` came from it.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        }
    }
}

/// No CPU is known by number.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Does nothing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_cpu: usize) {}
