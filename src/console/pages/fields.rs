//! A form whose fields may be there several times, such as the cells of a grid.

use serde::Deserialize;

/// The names and values of a form or a query, in their order.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(in crate::console) struct Fields(Vec<(String, String)>);

impl Fields {
    /// The value of a field, without white space around it; empty if it is absent.
    pub(super) fn get<'a>(&'a self, name: &'a str) -> &'a str {
        self.all(name).next().unwrap_or_default().trim()
    }

    /// The value of a field as it was sent, such as an id that may begin with a blank.
    pub(super) fn exact<'a>(&'a self, name: &'a str) -> &'a str {
        self.all(name).next().unwrap_or_default()
    }

    /// The value of a field as a type; none if it is absent or wrong.
    pub(super) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name).parse().ok()
    }

    /// All values of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.0.iter();
        let fields = fields.filter(move |(known, _)| known == name);
        fields.map(|(_, value)| value.as_str())
    }

    /// All names and values.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.0.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The other fields.
    pub(super) fn without(&self, names: &[&str]) -> Self {
        let fields = self.0.iter();
        let fields = fields.filter(|(name, _)| !names.contains(&name.as_str()));
        Self(fields.cloned().collect())
    }
}

#[cfg(test)]
impl Fields {
    /// A form of these fields.
    pub(super) fn of(fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter();
        Self(
            fields
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        )
    }
}
