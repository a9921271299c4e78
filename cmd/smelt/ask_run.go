package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// toRun is the client that asks smelt run: straight, since it is on this machine
// as a rule, and no further than where it was told to, since it shows the token.
var toRun = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// errNobody is that no server answers where smelt run is to be.
var errNobody = errors.New("no smelt run answers")

// askRun asks smelt run for a page. What is no answer of a smelt run's is an
// error; to be not ready is one.
func (s *settings) askRun(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+path, nil)
	if err != nil {
		return nil, err
	}
	if s.HTTPToken != "" {
		request.Header.Set("Authorization", "Bearer "+s.HTTPToken)
	}
	response, err := toRun.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", errNobody, s.HTTP, err)
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusServiceUnavailable:
		return response, nil
	case http.StatusUnauthorized:
		err = fmt.Errorf("smelt run on %s wants another SMELT_HTTP_TOKEN than is set here", s.HTTP)
	default:
		err = fmt.Errorf("%s: %s: is something else there than smelt run? say where that is with SMELT_HTTP", request.URL, response.Status)
	}
	return nil, errors.Join(err, response.Body.Close())
}
