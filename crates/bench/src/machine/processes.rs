//! Who else uses the machine.

use serde::{Deserialize, Serialize};
use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System};

/// A process that has nothing to do with the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Busiest {
    /// The program's name.
    pub name: String,
    /// Percent of one processor.
    pub percent: f64,
}

/// The system's processes, looked at again and again.
#[derive(Debug)]
pub struct Processes {
    system: Option<System>,
}

impl Default for Processes {
    fn default() -> Self {
        Self { system: System::new().ok() }
    }
}

impl Processes {
    /// The busiest since the last look, without this process, its descendants and its ancestors; none at the first look
    /// and where the system does not tell.
    pub fn busiest(&mut self) -> Option<Busiest> {
        let system = self.system.as_mut()?;
        let first = system.processes().is_empty();
        let kind = ProcessRefreshKind::nothing().with_cpu();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
        if first {
            return None;
        }
        let own = Pid::from_u32(std::process::id());
        let foreign = |process: &&Process| {
            process.thread_kind().is_none()
                && !lineage(system, process.pid()).contains(&own)
                && !lineage(system, own).contains(&process.pid())
        };
        let processes = system.processes().values().filter(foreign);
        let busiest = processes.max_by(|a, b| a.cpu_usage().total_cmp(&b.cpu_usage()))?;
        let name = busiest.name().to_string_lossy().into_owned();
        Some(Busiest { name, percent: f64::from(busiest.cpu_usage()) })
    }
}

/// A process and its ancestors.
fn lineage(system: &System, pid: Pid) -> Vec<Pid> {
    let mut lineage = vec![pid];
    while let Some(parent) = system.process(lineage[lineage.len() - 1]).and_then(Process::parent) {
        if lineage.contains(&parent) {
            break;
        }
        lineage.push(parent);
    }
    lineage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_no_foreign_process() {
        let mut processes = Processes::default();
        assert_eq!(processes.busiest(), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let busiest = processes.busiest();
        let own = Pid::from_u32(std::process::id());
        let lineage = lineage(processes.system.as_ref().unwrap(), Pid::from_u32(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(lineage[..2], [Pid::from_u32(child.id()), own]);
        assert!(busiest.is_none_or(|b| b.percent >= 0.0));
    }
}
