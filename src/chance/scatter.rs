//! Scatter: units over random moments of a window, and the hours of units planned for the whole campaign.
