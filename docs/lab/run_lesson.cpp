// What a lesson's main calls, for a page instead of a command line.

#include "lab.hpp"

#include "setup.hpp"

namespace attn {

lab::LessonRun* lab::current_run = nullptr;

int Lesson::run(std::string_view topic, int, char**, void (*teach)(Lesson&), std::vector<LessonFlag> own)
{
    lab::LessonRun& run = *lab::current_run;
    LessonFlags flags;
    flags.console.color = "never";
    flags.interventions = run.interventions;
    flags.own = std::move(own);
    Setup setup(topic, flags);
    if (!run.inputs.empty())
        setup.input = run.inputs;
    Lesson lesson(setup);
    Ending ending = lesson.follow(teach);
    setup.console.flush();
    run.refuted = std::move(ending.refuted);
    run.overflow = std::move(ending.overflow);
    run.asked_for = setup.inputs;
    run.recording = setup.recorder.recording();
    return 0;
}

} // namespace attn
