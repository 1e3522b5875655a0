//! The thread pool: one wake-up runs a whole list of operations, with a spin barrier between stages.

use std::any::Any;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, yield_now};
use std::time::{Duration, Instant};

use crate::scratch::Scratch;

/// How long an idle worker spins before it parks: longer than the gap between two launches of a token step.
const SPIN_BEFORE_PARK: Duration = Duration::from_micros(50);

/// Turns of the barrier's loop before it gives its time slice away, for machines with more threads than cores.
const SPINS_BEFORE_YIELD: u32 = 2_000;

/// Work that every thread of the pool does together.
type Job<'a> = dyn Fn(&mut Member<'_>) + Sync + 'a;

/// One thread's part in a running job.
pub(crate) struct Member<'a> {
    /// This thread's number, 0 for the caller of [`Pool::run`].
    pub thread: usize,
    /// Threads of the pool.
    pub threads: usize,
    /// This thread's working memory.
    pub scratch: &'a mut Scratch,
    barrier: &'a Barrier,
    target: usize,
}

/// Another thread failed: the job ends here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Aborted;

impl Member<'_> {
    /// Waits until every thread got here; writes made before are seen by every thread after.
    pub fn wait(&mut self) -> Result<(), Aborted> {
        if self.threads == 1 {
            return Ok(());
        }
        self.target += self.threads;
        self.barrier.wait(self.target)
    }
}

#[derive(Debug, Default)]
struct Barrier {
    arrived: AtomicUsize,
    aborted: AtomicBool,
}

impl Barrier {
    fn wait(&self, target: usize) -> Result<(), Aborted> {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0;
        while self.arrived.load(Ordering::Acquire) < target {
            if self.aborted.load(Ordering::Relaxed) {
                return Err(Aborted);
            }
            pause(&mut spins);
        }
        Ok(())
    }
}

fn pause(spins: &mut u32) {
    if *spins < SPINS_BEFORE_YIELD {
        *spins += 1;
        spin_loop();
    } else {
        yield_now();
    }
}

#[derive(Debug, Clone, Copy)]
struct JobPtr(*const Job<'static>);
// SAFETY: `Pool::run` keeps the job alive until every thread has left it, and the job is `Sync`.
unsafe impl Send for JobPtr {}

#[derive(Default)]
struct Shared {
    /// Number of the current job; a change starts the workers.
    epoch: AtomicUsize,
    /// Workers that have left the current job.
    left: AtomicUsize,
    stop: AtomicBool,
    barrier: Barrier,
    job: Mutex<Option<JobPtr>>,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn call(&self, job: &Job<'_>, thread: usize, threads: usize, scratch: &mut Scratch) {
        let mut member = Member { thread, threads, scratch, barrier: &self.barrier, target: 0 };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(&mut member))) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| format!("thread {thread}: {}", message(&*payload)));
            self.barrier.aborted.store(true, Ordering::Relaxed);
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic without a message")
}

struct Worker {
    handle: JoinHandle<()>,
    parked: Arc<AtomicBool>,
}

/// A persistent set of threads. The caller of [`Pool::run`] is thread 0.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    scratch: Scratch,
}

impl Pool {
    /// Starts `threads - 1` workers, each bound to one of the process's CPUs where the system allows it.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let mut pool = Self { shared: Arc::default(), workers: Vec::new(), scratch: Scratch::new() };
        let cpus = affinity::allowed();
        for thread in 1..threads {
            let (shared, parked) = (Arc::clone(&pool.shared), Arc::new(AtomicBool::new(false)));
            let flag = Arc::clone(&parked);
            let cpu = (!cpus.is_empty()).then(|| cpus[thread % cpus.len()]);
            let handle = std::thread::Builder::new().name(format!("cpu-{thread}")).spawn(move || {
                if let Some(cpu) = cpu {
                    affinity::bind(cpu);
                }
                work(&shared, &flag, thread, threads);
            })?;
            pool.workers.push(Worker { handle, parked });
        }
        Ok(pool)
    }

    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job` on every thread and waits for all of them; the error is the message of a panic.
    pub fn run(&mut self, job: &Job<'_>) -> Result<(), String> {
        let (shared, threads) = (&*self.shared, self.threads());
        shared.barrier.arrived.store(0, Ordering::Relaxed);
        shared.barrier.aborted.store(false, Ordering::Relaxed);
        if threads > 1 {
            // SAFETY: only the lifetime changes, and this function returns after every worker has left the job.
            let ptr = JobPtr(unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) });
            *shared.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(ptr);
            shared.left.store(0, Ordering::Relaxed);
            self.advance();
        }
        shared.call(job, 0, threads, &mut self.scratch);
        let mut spins = 0;
        while shared.left.load(Ordering::Acquire) < threads - 1 && threads > 1 {
            pause(&mut spins);
        }
        match shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(cause) => Err(cause),
            None => Ok(()),
        }
    }

    fn advance(&self) {
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        for worker in &self.workers {
            if worker.parked.swap(false, Ordering::SeqCst) {
                worker.handle.thread().unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.advance();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a job, so joining reports nothing that was not reported before.
            let _ = worker.handle.join();
        }
    }
}

fn work(shared: &Shared, parked: &AtomicBool, thread: usize, threads: usize) {
    let (mut scratch, mut epoch) = (Scratch::new(), 0);
    loop {
        let seen = next_epoch(shared, parked, epoch);
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        epoch = seen;
        let job = *shared.job.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(JobPtr(job)) = job {
            // SAFETY: `Pool::run` waits for `left` before the job goes out of scope.
            shared.call(unsafe { &*job }, thread, threads, &mut scratch);
        }
        shared.left.fetch_add(1, Ordering::Release);
    }
}

fn next_epoch(shared: &Shared, parked: &AtomicBool, epoch: usize) -> usize {
    let start = Instant::now();
    while start.elapsed() < SPIN_BEFORE_PARK {
        for _ in 0..32 {
            let seen = shared.epoch.load(Ordering::SeqCst);
            if seen != epoch {
                return seen;
            }
            spin_loop();
        }
    }
    loop {
        // The flag goes up before the last look, so a job started in between either is seen or sends a wake-up.
        parked.store(true, Ordering::SeqCst);
        let seen = shared.epoch.load(Ordering::SeqCst);
        if seen != epoch {
            parked.store(false, Ordering::SeqCst);
            return seen;
        }
        std::thread::park();
    }
}

/// Binding of threads to CPUs.
#[cfg(target_os = "linux")]
pub(crate) mod affinity {
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

/// Binding of threads to CPUs: left to the system here.
#[cfg(not(target_os = "linux"))]
pub(crate) mod affinity {
    /// No CPU is known by number.
    pub fn allowed() -> Vec<usize> {
        Vec::new()
    }

    /// Does nothing.
    pub fn bind(_cpu: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_sees_the_stage_before() {
        for threads in 1..=4 {
            let mut pool = Pool::new(threads).unwrap();
            let cells: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for job in 0..200 {
                pool.run(&|member| {
                    for stage in 0..20 {
                        let want = job * 20 + stage;
                        let sum: usize = cells.iter().map(|c| c.load(Ordering::Relaxed)).sum();
                        assert_eq!(sum, want * threads);
                        member.wait().unwrap();
                        cells[member.thread].fetch_add(1, Ordering::Relaxed);
                        member.wait().unwrap();
                    }
                })
                .unwrap();
            }
        }
    }

    #[test]
    fn parked_workers_wake_up() {
        let mut pool = Pool::new(3).unwrap();
        let count = AtomicUsize::new(0);
        for _ in 0..20 {
            std::thread::sleep(SPIN_BEFORE_PARK * 4);
            pool.run(&|_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        }
        assert_eq!(count.into_inner(), 60);
    }

    #[test]
    fn a_panic_on_any_thread_is_an_error_and_the_pool_lives_on() {
        for threads in 1..=3 {
            let mut pool = Pool::new(threads).unwrap();
            for bad in 0..threads {
                let result = pool.run(&|member| {
                    for stage in 0..5 {
                        assert!(!(stage == 2 && member.thread == bad), "stage {stage} failed");
                        if member.wait().is_err() {
                            return;
                        }
                    }
                });
                assert_eq!(result, Err(format!("thread {bad}: stage 2 failed")));
                assert_eq!(pool.run(&|member| member.wait().unwrap()), Ok(()));
            }
        }
    }
}
