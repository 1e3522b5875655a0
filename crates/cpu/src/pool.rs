//! The thread pool: threads walk a job's stages together, and take over the parts of one that is not there.
//!
//! A stage has as many parts as the pool has threads. Each thread takes its own part first and, where the others are not
//! done within a few microseconds, any that nobody has begun; the next stage begins when all parts are done. A thread that
//! the system runs elsewhere or late thus delays little but the part that it has begun.

use std::any::Any;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::affinity;
use crate::scratch::Scratch;

/// How long an idle worker spins before it parks: longer than the gap between two launches of a token step.
const SPIN_BEFORE_PARK: Duration = Duration::from_micros(50);

/// Turns of a wait for the others' parts before the thread looks for one that nobody has begun, about two microseconds:
/// where every thread is there, none looks at another's claim and takes its cache line away.
const SPINS_BEFORE_TAKEOVER: u32 = 32;

/// Turns of a wait for the others' parts before the thread sleeps: where CPUs are shared with other work, one that sleeps
/// is soon run again, and one that spins uses up the time in which it could work.
const SPINS_BEFORE_SLEEP: u32 = 1_000;

/// One part of one stage: `(stage, part, the thread's working memory)`.
type Job<'a> = dyn Fn(usize, usize, &mut Scratch) + Sync + 'a;

#[derive(Debug, Clone, Copy)]
struct JobPtr {
    job: *const Job<'static>,
    /// Numbers of its first stage and of the stage after its last.
    stages: (u64, u64),
}
// SAFETY: the job is `Sync`, and who follows the pointer holds a part of a stage that `Pool::run` waits for.
unsafe impl Send for JobPtr {}
// SAFETY: as above.
unsafe impl Sync for JobPtr {}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// Stages are numbered through all jobs, so a thread that comes late can never take a part of a later one for its own.
struct Shared {
    /// Number of the stage after the last of the newest job.
    end: Line,
    /// Parts done in all stages so far; only who ends a part touches it.
    done: Line,
    /// Stages done so far, for those who wait.
    stage: Line,
    /// For each part, the number of the first stage in which it is still to be taken.
    claims: Box<[Line]>,
    /// Threads that sleep until a stage is done.
    sleepers: AtomicU64,
    sleep: Mutex<()>,
    wake: Condvar,
    stop: AtomicBool,
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
    job: Mutex<Option<JobPtr>>,
}

impl Shared {
    fn new(threads: usize) -> Self {
        Self {
            end: Line::default(),
            done: Line::default(),
            stage: Line::default(),
            claims: (0..threads).map(|_| Line::default()).collect(),
            sleepers: AtomicU64::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            job: Mutex::new(None),
        }
    }

    /// The stage that is being worked on.
    fn stage(&self) -> u64 {
        self.stage.0.load(Ordering::SeqCst)
    }

    /// Takes a part of `stage` if nobody has.
    fn claim(&self, stage: u64, part: usize) -> bool {
        let claim = &self.claims[part].0;
        claim.load(Ordering::Relaxed) == stage
            && claim.compare_exchange(stage, stage + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Runs those of some parts of `stage` that nobody else takes.
    fn work(&self, stage: u64, mut parts: impl Iterator<Item = usize>, member: &mut Member) {
        while let Some(part) = parts.find(|&part| self.claim(stage, part)) {
            self.run_part(stage, part, member);
            let done = self.done.0.fetch_add(1, Ordering::SeqCst) + 1;
            if done == (stage + 1) * self.claims.len() as u64 {
                self.stage.0.store(stage + 1, Ordering::SeqCst);
                if self.sleepers.load(Ordering::SeqCst) > 0 {
                    drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
                    self.wake.notify_all();
                }
            }
        }
    }

    /// Sleeps until `stage` is done.
    fn sleep_through(&self, stage: u64) {
        let mut guard = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before the look at the stage, so that who ends it after the look sees the sleeper.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.stage() == stage {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn run_part(&self, stage: u64, part: usize, member: &mut Member) {
        // After a failure the remaining parts are only counted.
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let JobPtr { job, stages } = match member.job {
            Some(known) if stage < known.stages.1 => known,
            _ => {
                let job = *self.job.lock().unwrap_or_else(PoisonError::into_inner);
                *member.job.insert(job.expect("a stage belongs to a job"))
            }
        };
        let stage = (stage - stages.0) as usize;
        // SAFETY: the part of a stage of this job is taken and not done, so `Pool::run` still waits.
        let job = unsafe { &*job };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(stage, part, &mut member.scratch))) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| format!("part {part}: {}", message(&*payload)));
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Works on the stages before `end` until the last is done: on the thread's own part of each, then on others'.
    fn finish(&self, end: u64, thread: usize, member: &mut Member) {
        let (mut seen, mut spins) = (None, 0);
        loop {
            let stage = self.stage();
            if stage >= end {
                return;
            }
            if seen != Some(stage) {
                (seen, spins) = (Some(stage), 0);
                self.work(stage, std::iter::once(thread), member);
                continue;
            }
            match spins {
                SPINS_BEFORE_TAKEOVER => {
                    let parts = self.claims.len();
                    self.work(stage, (thread + 1..parts).chain(0..thread), member);
                }
                SPINS_BEFORE_SLEEP.. => self.sleep_through(stage),
                _ => spin_loop(),
            }
            spins += 1;
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic without a message")
}

/// What one thread has of its own.
#[derive(Default)]
struct Member {
    scratch: Scratch,
    /// The job that it last looked at.
    job: Option<JobPtr>,
}

struct Worker {
    handle: JoinHandle<()>,
    parked: Arc<AtomicBool>,
}

/// A persistent set of threads. The caller of [`Pool::run`] is thread 0.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    member: Member,
}

impl Pool {
    /// Starts `threads - 1` workers, each bound to one of the process's CPUs where the system allows it.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(threads));
        let mut pool = Self { shared, workers: Vec::new(), member: Member::default() };
        let cpus = affinity::allowed();
        for thread in 1..threads {
            let (shared, parked) = (Arc::clone(&pool.shared), Arc::new(AtomicBool::new(false)));
            let flag = Arc::clone(&parked);
            let cpu = (!cpus.is_empty()).then(|| cpus[thread % cpus.len()]);
            let handle = std::thread::Builder::new().name(format!("cpu-{thread}")).spawn(move || {
                if let Some(cpu) = cpu {
                    affinity::bind(cpu);
                }
                serve(&shared, &flag, thread);
            })?;
            pool.workers.push(Worker { handle, parked });
        }
        Ok(pool)
    }

    /// Number of threads, the caller included; also the number of parts of a stage.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs every part of `stages` stages, one stage after the other; the error is the message of a panic.
    ///
    /// Writes of a stage are seen by all later ones. Which thread runs a part is not fixed.
    pub fn run(&mut self, stages: usize, job: &Job<'_>) -> Result<(), String> {
        let shared = &*self.shared;
        let first = shared.stage();
        let stages = (first, first + stages as u64);
        // SAFETY: only the lifetime changes, and this function returns after the last part is done.
        let job = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) };
        *shared.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(JobPtr { job, stages });
        shared.failed.store(false, Ordering::Relaxed);
        self.publish(stages.1);
        shared.finish(stages.1, 0, &mut self.member);
        match shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(cause) => Err(cause),
            None => Ok(()),
        }
    }

    /// Shows the workers that there are stages up to `end`.
    fn publish(&self, end: u64) {
        self.shared.end.0.store(end, Ordering::SeqCst);
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
        self.publish(self.shared.stage());
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a job, so joining reports nothing that was not reported before.
            let _ = worker.handle.join();
        }
    }
}

fn serve(shared: &Shared, parked: &AtomicBool, thread: usize) {
    let mut member = Member::default();
    while let Some(end) = next_job(shared, parked) {
        shared.finish(end, thread, &mut member);
    }
}

/// Waits for stages that are not done and gives their end; `None` once the pool is dropped.
fn next_job(shared: &Shared, parked: &AtomicBool) -> Option<u64> {
    let news = || {
        let stopped = shared.stop.load(Ordering::SeqCst);
        let end = shared.end.0.load(Ordering::SeqCst);
        (stopped || shared.stage() < end).then_some((!stopped).then_some(end))
    };
    let start = Instant::now();
    while start.elapsed() < SPIN_BEFORE_PARK {
        for _ in 0..32 {
            if let Some(news) = news() {
                return news;
            }
            spin_loop();
        }
    }
    loop {
        // The flag goes up before the last look, so a job started in between either is seen or sends a wake-up.
        parked.store(true, Ordering::SeqCst);
        if let Some(news) = news() {
            parked.store(false, Ordering::SeqCst);
            return news;
        }
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn every_stage_sees_the_stage_before_and_runs_each_part_once() {
        for threads in 1..=4 {
            let mut pool = Pool::new(threads).unwrap();
            let cells: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for job in 0..200 {
                pool.run(40, &|stage, part, _| {
                    let want = job * 20 + stage.div_ceil(2);
                    if stage % 2 == 0 {
                        let sum: usize = cells.iter().map(|c| c.load(Ordering::Relaxed)).sum();
                        assert_eq!(sum, want * threads);
                    } else {
                        assert_eq!(cells[part].fetch_add(1, Ordering::Relaxed), want - 1);
                    }
                })
                .unwrap();
            }
        }
    }

    #[test]
    fn parked_workers_wake_up() {
        let mut pool = Pool::new(3).unwrap();
        let leaders = AtomicUsize::new(0);
        for _ in 0..20 {
            std::thread::sleep(SPIN_BEFORE_PARK * 4);
            // No thread can run two of these parts.
            let together = Barrier::new(3);
            pool.run(1, &|_, _, _| {
                leaders.fetch_add(usize::from(together.wait().is_leader()), Ordering::Relaxed);
            })
            .unwrap();
        }
        assert_eq!(leaders.into_inner(), 20);
    }

    #[test]
    fn parts_of_a_thread_that_does_not_come_are_taken_over() {
        let shared = Shared::new(3);
        let runs = Mutex::new(Vec::new());
        let job: &Job<'_> = &|stage, part, _| runs.lock().unwrap().push((stage, part));
        // SAFETY: the job outlives every use below.
        let job = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) };
        *shared.job.lock().unwrap() = Some(JobPtr { job, stages: (0, 2) });
        let mut late = Member::default();
        shared.finish(2, 1, &mut Member::default());
        for stage in 0..2 {
            shared.work(stage, 0..3, &mut late);
        }
        assert_eq!(*runs.lock().unwrap(), [(0, 1), (0, 2), (0, 0), (1, 1), (1, 2), (1, 0)]);
        assert_eq!((shared.stage(), late.job.is_none()), (2, true));
    }

    #[test]
    fn a_panic_in_any_part_is_an_error_and_the_pool_lives_on() {
        for threads in 1..=3 {
            let mut pool = Pool::new(threads).unwrap();
            for bad in 0..threads {
                let result = pool.run(5, &|stage, part, _| {
                    assert!(!(stage == 2 && part == bad), "stage {stage} failed");
                });
                assert_eq!(result, Err(format!("part {bad}: stage 2 failed")));
                let count = AtomicUsize::new(0);
                let counted = pool.run(3, &|_, _, _| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!((counted, count.into_inner()), (Ok(()), 3 * threads));
            }
        }
    }
}
