//! How recorded time is played: what keys have asked for so far. Who reads the store follows.

use super::key::Key;

/// What was asked for since the begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Playback {
    pub(crate) is_playing: bool,
    /// Samples forward, less those back.
    pub(crate) samples: i64,
    /// Minutes forward, less those back.
    pub(crate) minutes: i64,
    /// How often the speed was doubled, less how often it was halved.
    pub(crate) doublings: i32,
}

/// What a key means for what is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressed {
    Done,
    /// It would change the host of now.
    Refused,
    /// It means what it means for live samples.
    Other,
}

impl Playback {
    /// Begins at the first sample that is shown, and plays.
    pub(crate) const fn new() -> Self {
        Self {
            is_playing: true,
            samples: 0,
            minutes: 0,
            doublings: 0,
        }
    }

    /// Returns by what the speed at the begin is multiplied.
    pub(crate) fn faster(&self) -> f64 {
        f64::from(self.doublings).exp2()
    }

    /// Takes what a key asks for.
    pub(crate) const fn press(&mut self, key: Key) -> Pressed {
        match key {
            Key::Char(' ' | 'p') => self.is_playing = !self.is_playing,
            Key::Left => self.step(-1, 0),
            Key::Right => self.step(1, 0),
            Key::PageUp => self.step(0, -1),
            Key::PageDown => self.step(0, 1),
            Key::Char('+') if self.doublings < DOUBLINGS_MAX => self.doublings += 1,
            Key::Char('-') if self.doublings > -DOUBLINGS_MAX => self.doublings -= 1,
            Key::Char('+' | '-') => {}
            Key::Char('k' | 'K' | 'c' | 'g') => return Pressed::Refused,
            _ => return Pressed::Other,
        }
        Pressed::Done
    }

    /// Moves, and stands still there.
    const fn step(&mut self, samples: i64, minutes: i64) {
        self.samples += samples;
        self.minutes += minutes;
        self.is_playing = false;
    }
}

/// From a thousandth to a thousand times the speed at the begin.
const DOUBLINGS_MAX: i32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_doubles_within_bounds() {
        let mut playback = Playback::new();
        playback.press(Key::Char('-'));
        assert_eq!(playback.faster(), 0.5);
        for _ in 0..50 {
            playback.press(Key::Char('+'));
        }
        assert_eq!(playback.faster(), 1024.0);
        assert!(playback.is_playing);
    }

    #[test]
    fn keys_add_up_and_stand_still() {
        let mut playback = Playback::new();
        for key in [Key::Left, Key::Left, Key::Right, Key::PageUp, Key::PageUp] {
            assert_eq!(playback.press(key), Pressed::Done);
        }
        let expected = Playback {
            is_playing: false,
            samples: -1,
            minutes: -2,
            doublings: 0,
        };
        assert_eq!(playback, expected);
        playback.press(Key::Char(' '));
        assert!(playback.is_playing);
    }

    #[test]
    fn keys_that_change_the_host_are_refused() {
        let mut playback = Playback::new();
        for key in ['k', 'K', 'c', 'g'] {
            assert_eq!(playback.press(Key::Char(key)), Pressed::Refused);
        }
        assert_eq!(playback.press(Key::Up), Pressed::Other);
        assert_eq!(playback, Playback::new());
    }
}
