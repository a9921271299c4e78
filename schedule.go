package smelt

import (
	"fmt"

	"github.com/go-co-op/gocron/v2"
)

// schedule runs jobs at intervals. A job never runs twice at the same time.
type schedule struct {
	cron gocron.Scheduler
	free []chan struct{} // per job: holds a token while the job is not running
	jobs map[string]gocron.Job
}

func newSchedule() (*schedule, error) {
	cron, err := gocron.NewScheduler()
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return &schedule{cron: cron, jobs: map[string]gocron.Job{}}, nil
}

// add schedules a job. A run that is due while the job still runs is skipped.
func (s *schedule) add(name string, every gocron.JobDefinition, job func()) error {
	free := make(chan struct{}, 1)
	free <- struct{}{}
	s.free = append(s.free, free)
	task := func() {
		select {
		case <-free:
			job()
			free <- struct{}{}
		default:
		}
	}
	scheduled, err := s.cron.NewJob(every, gocron.NewTask(task),
		gocron.WithName(name), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	if err != nil {
		return fmt.Errorf("schedule %s: %w", name, err)
	}
	s.jobs[name] = scheduled
	return nil
}

// now runs a job once, in addition to its schedule. After stop it does nothing.
func (s *schedule) now(name string) {
	_ = s.jobs[name].RunNow() // fails when the schedule has stopped
}

func (s *schedule) start() { s.cron.Start() }

// stop waits for running jobs and prevents new runs. gocron's own Shutdown would poll,
// and give up while a job still runs.
func (s *schedule) stop() error {
	for _, free := range s.free {
		<-free
	}
	return s.cron.Shutdown()
}
