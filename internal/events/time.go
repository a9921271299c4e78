package events

const (
	microsPerSecond = 1_000_000
	secondsPerDay   = 24 * 60 * 60
)

// parseDay reads 2026-11-29, in days since 1970. The year 0 is the one before 1.
func parseDay(b []byte) (days int, ok bool) {
	if len(b) != len("2026-11-29") || b[4] != '-' || b[7] != '-' {
		return 0, false
	}
	century, year, month, day := two(b), two(b[2:]), two(b[5:]), two(b[8:])
	if century > 99 || year > 99 || month < 1 || month > 12 {
		return 0, false
	}
	year += 100 * century
	leap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	before := daysBefore[month-1]
	length := daysBefore[month] - before
	if leap && month == 2 {
		length++
	}
	if leap && month > 2 {
		before++
	}
	if day < 1 || day > length {
		return 0, false
	}
	return daysBeforeYear(year) - daysBeforeYear(1970) + before + day - 1, true
}

// daysBeforeYear counts the days of the years since -400 that come before a year.
func daysBeforeYear(year int) int {
	years := year + 399 // after the leap year -400
	return 365*years + years/4 - years/100 + years/400
}

// daysBefore are the days of a usual year that come before a month, from 0.
var daysBefore = [...]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}

// parseTime reads the ISO 8601 time of a day: 2026-11-29T12:00:00.123+01:00, in
// microseconds since 1970. T may be a small t or a space. Seconds may be left
// out. More than six digits of a second are cut. Without a zone it is UTC.
func parseTime(b []byte) (micros int64, ok bool) {
	const minute = len("2026-11-29T12:00")
	if len(b) < minute || b[10] != 'T' && b[10] != 't' && b[10] != ' ' || b[13] != ':' {
		return 0, false
	}
	days, ok := parseDay(b[:10])
	hours, minutes := two(b[11:]), two(b[14:])
	if !ok || hours > 23 || minutes > 59 {
		return 0, false
	}
	seconds, fraction, rest := 0, int64(0), b[minute:]
	if len(rest) >= 3 && rest[0] == ':' {
		if seconds = two(rest[1:]); seconds > 59 {
			return 0, false
		}
		if rest = rest[3:]; len(rest) > 0 && rest[0] == '.' {
			if fraction, rest, ok = parseFraction(rest[1:]); !ok {
				return 0, false
			}
		}
	}
	offset, ok := parseZone(rest)
	if !ok {
		return 0, false
	}
	seconds += days*secondsPerDay + hours*3600 + minutes*60 - offset
	return int64(seconds)*microsPerSecond + fraction, true
}

// parseFraction reads the digits of a fraction, at least one.
func parseFraction(b []byte) (micros int64, rest []byte, ok bool) {
	unit, i := int64(microsPerSecond), 0
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		unit /= 10
		micros += int64(b[i]-'0') * unit
	}
	return micros, b[i:], i > 0
}

// parseZone reads Z, +01, +01:30, +0130 or nothing, in seconds. Its hours are 15
// at most.
func parseZone(b []byte) (seconds int, ok bool) {
	if len(b) == 0 || len(b) == 1 && b[0]|0x20 == 'z' {
		return 0, true
	}
	if len(b) < 3 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hours, minutes := two(b[1:]), 0
	switch {
	case len(b) == len("+0130"):
		minutes = two(b[3:])
	case len(b) == len("+01:30") && b[3] == ':':
		minutes = two(b[4:])
	case len(b) != len("+01"):
		return 0, false
	}
	seconds = hours*3600 + minutes*60
	if b[0] == '-' {
		seconds = -seconds
	}
	return seconds, hours <= 15 && minutes <= 59
}

// two reads two digits. It gives more than 99 if they are none.
func two(b []byte) int {
	tens, ones := b[0]-'0', b[1]-'0'
	if tens > 9 || ones > 9 {
		return 100
	}
	return int(tens)*10 + int(ones)
}

// Times of the years 1 to 9999, in microseconds since 1970.
const (
	minEpoch = -62_135_596_800 * microsPerSecond
	maxEpoch = 253_402_300_800*microsPerSecond - 1
)

// epoch gives the microseconds of a time that is a number of units since 1970,
// 10^scale microseconds each. What is finer is cut, toward the past.
func (n *number) epoch(scale int) (micros int64, v verdict) {
	whole, left, ok := n.scaled(scale)
	if !ok || whole.high != 0 || whole.low > maxEpoch {
		return 0, outOfRange
	}
	micros = int64(whole.low)
	if n.negative {
		micros = -micros
		if left != nothing {
			micros--
		}
	}
	if micros < minEpoch {
		return 0, outOfRange
	}
	return micros, good
}
