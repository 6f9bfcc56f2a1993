//! The tables of findings, and of what cannot be seen.

use crate::periods::{PeriodTable, number, text};
use rusqlite::Row;
use rusqlite::types::Value;
use sockeye_history::{
    DataKind, FindingRecord, FindingSeverity, Unseen, facts_of, facts_text, remedies_of, remedies_text,
};
use sockeye_model::{NetnsInode, Pid};

impl PeriodTable for FindingRecord {
    const NAME: &'static str = "finding";

    const COLUMNS: &'static [&'static str] = &[
        "rule",
        "severity",
        "severity_rank",
        "netns",
        "subject",
        "pid",
        "owner",
        "sockets",
        "example",
        "facts",
        "meaning",
        "remedies",
    ];

    fn values(&self) -> Vec<Value> {
        let owner = self.owner.as_ref();
        vec![
            Value::from(self.rule.clone()),
            Value::from(self.severity.name.clone()),
            number(self.severity.rank),
            self.netns.map_or(Value::Null, |netns| number(netns.0)),
            Value::from(self.subject.clone()),
            owner.map_or(Value::Null, |(pid, _)| number(pid.0)),
            text(owner.map(|(_, name)| name.as_str())),
            number(self.sockets),
            text(self.example.as_deref()),
            Value::from(facts_text(&self.facts)),
            Value::from(self.meaning.clone()),
            Value::from(remedies_text(&self.remedies)),
        ]
    }

    fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Self>> {
        let pid: Option<u32> = row.get(first + 5)?;
        let owner: Option<String> = row.get(first + 6)?;
        Ok(Some(Self {
            rule: row.get(first)?,
            severity: FindingSeverity {
                name: row.get(first + 1)?,
                rank: row.get(first + 2)?,
            },
            netns: row.get::<_, Option<u32>>(first + 3)?.map(NetnsInode),
            subject: row.get(first + 4)?,
            owner: pid.map(Pid).zip(owner),
            sockets: row.get(first + 7)?,
            example: row.get(first + 8)?,
            facts: facts_of(&row.get::<_, String>(first + 9)?),
            meaning: row.get(first + 10)?,
            remedies: remedies_of(&row.get::<_, String>(first + 11)?),
        }))
    }
}

impl PeriodTable for Unseen {
    const NAME: &'static str = "unseen";

    const COLUMNS: &'static [&'static str] = &["kind", "part", "why"];

    fn values(&self) -> Vec<Value> {
        vec![
            Value::from(self.kind.name().to_owned()),
            text(self.part.as_deref()),
            Value::from(self.why.clone()),
        ]
    }

    fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Self>> {
        let Some(kind) = DataKind::from_name(&row.get::<_, String>(first)?) else {
            return Ok(None);
        };
        Ok(Some(Self {
            kind,
            part: row.get(first + 1)?,
            why: row.get(first + 2)?,
        }))
    }
}
